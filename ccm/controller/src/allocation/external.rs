//! `spec.externalIPs`: permission, announcement and refusal.
//!
//! Any user who may write a Service may put any address there, and every node then takes the traffic to it that passes through the
//! cluster (CVE-2020-8554). Announced on the LAN such an address would take all clients' traffic. An external IP is therefore
//! announced only if it is in a pool whose admin allows it, the pool is for the Service, and no other Service has it. A refused
//! address reserves nothing: the refusal is reported on the Service that lists it, on the Services that have the address, and on the
//! pool.

pub(crate) mod claims;
mod decide;
mod refused;
mod services;
mod uses;

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;

pub(crate) use refused::RefusedExternalIps;
pub(crate) use services::ExternalIps;

/// Entries of `spec.externalIPs` of one Service that are looked at; the API server bounds only the size of the object.
pub(crate) const MAX_EXTERNAL_IPS: usize = 64;

/// Entries of `spec.externalIPs`.
fn listed(service: &Service) -> &[String] {
    service.spec.as_ref().and_then(|spec| spec.external_ips.as_deref()).unwrap_or_default()
}

/// The addresses of the first [`MAX_EXTERNAL_IPS`] entries of `spec.externalIPs`, each once, in the order in which they are
/// written. (The API server has checked that they are addresses.)
pub(crate) fn external_ips(service: &Service) -> Vec<IpAddr> {
    let mut known = BTreeSet::new();
    let entries = listed(service).iter().take(MAX_EXTERNAL_IPS);
    entries.filter_map(|text| text.trim().parse().ok()).filter(|address| known.insert(*address)).collect()
}

/// Returns the message for a Service with more entries than are examined. (Their number is not kept.)
fn excess(service: &Service) -> Option<String> {
    (listed(service).len() > MAX_EXTERNAL_IPS).then(|| {
        format!(
            "spec.externalIPs has more than {MAX_EXTERNAL_IPS} entries, and only the first {MAX_EXTERNAL_IPS} are looked at: \
             spread them over several Services"
        )
    })
}
