//! Reduction of objects that others write to the parts that are read. A Service may have 256 KiB of annotations, and there may be
//! thousands.
//!
//! An object as it is kept is never written back: all writes to it are patches, which say what they change.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_ccm::node::ANNOTATION_PROVIDED_NODE_IP;
use windlass_ccm::slim;

use crate::allocation::external::MAX_EXTERNAL_IPS;
use crate::allocation::request::{self, MOST_SOURCES};

#[cfg(test)]
mod tests;

/// Longest text, in bytes, of all annotations of a Service that are read: a thousand source ranges fit.
const LONGEST: usize = 40 * 1024;
/// Most bytes that all entries of `spec.loadBalancerSourceRanges` take: as many as are read fit, however they are written, and some
/// that are there twice.
const LARGEST: usize = 80 * 1024;
/// No annotation has to be longer than this, in bytes, but for the source ranges.
const LONG: usize = LONGEST / 16;

/// A Service without what nobody reads.
pub(crate) fn service(service: &mut Service) {
    slim::service(service);
    let metadata = &mut service.metadata;
    metadata.owner_references = None;
    keep_annotations(metadata, request::is_read);
    if let Some(annotations) = &mut metadata.annotations {
        bound(annotations);
    }
    if let Some(spec) = &mut service.spec {
        bound_lists(spec);
    }
}

/// A Node without what nobody reads.
pub(crate) fn node(node: &mut Node) {
    slim::node(node);
    keep_annotations(&mut node.metadata, |name| name == ANNOTATION_PROVIDED_NODE_IP);
}

/// Drops the managed fields and all annotations but these.
pub(crate) fn metadata(metadata: &mut ObjectMeta, annotations: &[&str]) {
    metadata.managed_fields = None;
    keep_annotations(metadata, |name| annotations.contains(&name));
}

fn keep_annotations(metadata: &mut ObjectMeta, is_read: impl Fn(&str) -> bool) {
    let Some(annotations) = &mut metadata.annotations else { return };
    annotations.retain(|name, _| is_read(name));
    if annotations.is_empty() {
        metadata.annotations = None;
    }
}

/// Replaces the long texts of annotations that are too long in total by a placeholder that no reader accepts, so that the Service gets
/// an error. Half of a list of ranges would be another list.
fn bound(annotations: &mut BTreeMap<String, String>) {
    let total: usize = annotations.values().map(String::len).sum();
    if total > LONGEST {
        for text in annotations.values_mut().filter(|text| text.len() > LONG) {
            *text = request::too_long(text.len(), LONG);
        }
    }
}

/// Bounds lists that only the size of the object bounds. Of external IPs one more is kept than is examined, so that the excess is
/// reported.
fn bound_lists(spec: &mut ServiceSpec) {
    if let Some(external_ips) = &mut spec.external_ips {
        external_ips.truncate(MAX_EXTERNAL_IPS + 1);
        external_ips.shrink_to_fit();
    }
    if let Some(ranges) = &mut spec.load_balancer_source_ranges {
        let text: usize = ranges.iter().map(String::len).sum();
        if text + ranges.len() * size_of::<String>() > LARGEST {
            let (entries, most) = (ranges.len(), MOST_SOURCES);
            *ranges = vec![format!("({entries} entries, {text} bytes: name at most {most})")];
        }
    }
}
