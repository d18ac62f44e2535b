//! `spec.externalIPs`: which of them are announced, and which are refused.
//!
//! Whoever may write a Service may put any address there, and every node then takes the traffic to it that passes through
//! the cluster (CVE-2020-8554). Announced on the LAN such an address would take everybody's traffic. So only addresses of a
//! pool are announced whose admin allows it, for Services that the pool is for, and never one that somebody else has.

mod claims;
mod decide;
mod uses;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;

pub(crate) use decide::ReportedRejections;

/// The addresses in `spec.externalIPs`, each once, in the order in which they are written. (The API server has checked that
/// they are addresses.)
pub(crate) fn external_ips(service: &Service) -> Vec<IpAddr> {
    let listed = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten());
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in listed.filter_map(|text| text.trim().parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
