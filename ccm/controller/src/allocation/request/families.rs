//! Address families of a Service, as the API server resolved them.

use k8s_openapi::api::core::v1::ServiceSpec;
use windlass_ipam::{Families, Family};

use super::RequestError;
use super::error::shortened;

/// The families of a Service and whether it needs all of them. One without `spec.ipFamilies` has those of its cluster
/// IPs, and IPv4 if it has none.
///
/// # Errors
/// Words that no API server of today writes, and `RequireDualStack` with one family.
pub(super) fn families(spec: Option<&ServiceSpec>) -> Result<Families, RequestError> {
    let mut families = Vec::new();
    for word in spec.iter().filter_map(|spec| spec.ip_families.as_ref()).flatten() {
        let family = match word.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            other => return Err(RequestError::UnknownFamily { value: shortened(other) }),
        };
        if families.contains(&family) {
            return Err(RequestError::FamilyTwice { family });
        }
        families.push(family);
    }
    if families.is_empty() {
        families = cluster_families(spec);
    }
    let first = families.first().copied().unwrap_or(Family::V4);
    let both = families.get(1).map(|second| [first, *second]);
    match (spec.and_then(|spec| spec.ip_family_policy.as_deref()), both) {
        (None | Some("PreferDualStack"), Some(both)) => Ok(Families::Prefer(both)),
        (Some("RequireDualStack"), Some(both)) => Ok(Families::Require(both)),
        (None | Some("PreferDualStack"), None) | (Some("SingleStack"), _) => Ok(Families::Single(first)),
        (Some("RequireDualStack"), None) => Err(RequestError::OneFamily { family: first }),
        (Some(other), _) => Err(RequestError::UnknownPolicy { value: shortened(other) }),
    }
}

fn cluster_families(spec: Option<&ServiceSpec>) -> Vec<Family> {
    let mut families = Vec::new();
    for text in spec.iter().filter_map(|spec| spec.cluster_ips.as_ref()).flatten() {
        if let Ok(address) = text.parse()
            && !families.contains(&Family::of(address))
        {
            families.push(Family::of(address));
        }
    }
    families
}

/// The families themselves, in order.
pub(crate) fn list(families: Families) -> Vec<Family> {
    match families {
        Families::Single(family) => vec![family],
        Families::Prefer(both) | Families::Require(both) => both.to_vec(),
    }
}
