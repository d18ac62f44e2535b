//! The annotations of a request: ours and, if the admin lets them be read, those of MetalLB and
//! kube-vip.
//!
//! | ours | MetalLB (`metallb.io/` before `metallb.universe.tf/`) | kube-vip (`kube-vip.io/`) |
//! |---|---|---|
//! | `addresses` | `loadBalancerIPs` | `loadbalancerIPs` |
//! | `pool` | `address-pool` | |
//! | `sharing-key` | `allow-shared-ip` | |
//!
//! Where ours is set, theirs is not read. Where both of theirs are, they have to agree. What differs:
//! - MetalLB refuses `spec.loadBalancerIP` beside its annotation; here it may name one of the same addresses.
//! - MetalLB's key shares an address between any two namespaces; here both have to name each other as well, in
//!   `windlass.dev/share-with`.
//! - MetalLB gives one address of each family; here any number up to [`super::limits::MOST_OF_A_FAMILY`] of each may be named.
//! - kube-vip reads `0.0.0.0` and `::` as "ask a DHCP server"; here that is refused.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use windlass_api::{
    ANNOTATION_ADDRESS_COUNT, ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARE_WITH,
    ANNOTATION_SHARING_KEY, SERVICE_ANNOTATIONS,
};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;

use super::Settings;

/// kube-vip's list of addresses.
pub(super) const KUBE_VIP_ADDRESSES: &str = "kube-vip.io/loadbalancerIPs";

/// A name of MetalLB and its older form, which counts if the name is not there at all.
type MetalLb = (&'static str, &'static str);
const METALLB_ADDRESSES: MetalLb = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs");
const METALLB_POOL: MetalLb = ("metallb.io/address-pool", "metallb.universe.tf/address-pool");
const METALLB_KEY: MetalLb = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip");

/// Returns true if the annotation of a Service is read with any setting. Others are not even stored.
pub(crate) fn is_read(annotation: &str) -> bool {
    let theirs = [METALLB_ADDRESSES, METALLB_POOL, METALLB_KEY];
    SERVICE_ANNOTATIONS.contains(&annotation)
        || annotation == ANNOTATION_SOURCE_RANGES
        || annotation == KUBE_VIP_ADDRESSES
        || theirs.iter().any(|(name, older)| annotation == *name || annotation == *older)
}

/// Prefix of the placeholder for a text that is too long.
const TOO_LONG: &str = "(too long: ";

/// Returns the placeholder for a text of `length` bytes, of which `most` are read. No reader accepts it as a value.
pub(crate) fn too_long(length: usize, most: usize) -> String {
    format!("{TOO_LONG}{length} bytes; write at most {most})")
}

/// A value, and the annotation it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnnotationValue<'a> {
    pub(super) annotation: &'static str,
    /// Trimmed, not empty.
    pub(super) text: &'a str,
}

/// The annotations of one Service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Annotations<'a> {
    all: Option<&'a BTreeMap<String, String>>,
    compat: bool,
}

impl<'a> Annotations<'a> {
    pub(super) fn of(service: &'a Service, settings: Settings) -> Self {
        Self { all: service.metadata.annotations.as_ref(), compat: settings.compat_annotations }
    }

    /// The lists of addresses: ours, or else all the others.
    pub(super) fn addresses(self) -> Vec<AnnotationValue<'a>> {
        match self.own(ANNOTATION_ADDRESSES) {
            Some(ours) => vec![ours],
            None => self.metallb(METALLB_ADDRESSES).into_iter().chain(self.kube_vip()).collect(),
        }
    }

    pub(super) fn pool(self) -> Option<AnnotationValue<'a>> {
        self.own(ANNOTATION_POOL).or_else(|| self.metallb(METALLB_POOL))
    }

    pub(super) fn sharing_key(self) -> Option<AnnotationValue<'a>> {
        self.own(ANNOTATION_SHARING_KEY).or_else(|| self.metallb(METALLB_KEY))
    }

    pub(super) fn share_with(self) -> Option<AnnotationValue<'a>> {
        self.own(ANNOTATION_SHARE_WITH)
    }

    pub(super) fn address_count(self) -> Option<AnnotationValue<'a>> {
        self.own(ANNOTATION_ADDRESS_COUNT)
    }

    /// A value that was too long to be kept.
    pub(super) fn too_long(self) -> Option<AnnotationValue<'a>> {
        let others = [self.pool(), self.sharing_key(), self.share_with(), self.address_count()];
        let mut all = self.addresses().into_iter().chain(others.into_iter().flatten());
        all.find(|value| value.text.starts_with(TOO_LONG))
    }

    fn own(self, annotation: &'static str) -> Option<AnnotationValue<'a>> {
        let text = self.all?.get(annotation)?.trim();
        (!text.is_empty()).then_some(AnnotationValue { annotation, text })
    }

    fn metallb(self, (name, older): MetalLb) -> Option<AnnotationValue<'a>> {
        let present = self.all.is_some_and(|all| all.contains_key(name));
        if self.compat { self.own(if present { name } else { older }) } else { None }
    }

    fn kube_vip(self) -> Option<AnnotationValue<'a>> {
        if self.compat { self.own(KUBE_VIP_ADDRESSES) } else { None }
    }
}
