//! Addresses that a Service names, and the number that it wants.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_ipam::{Families, Family};

use super::annotations::{AnnotationValue, Annotations, KUBE_VIP_ADDRESSES};
use super::error::RequestError;
use super::error::shortened;
use super::families::list;
use super::limits::MOST_OF_A_FAMILY;

/// The field of `spec` that names one address.
const FIELD: &str = "spec.loadBalancerIP";

/// Addresses, and the place that names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NamedAddresses {
    pub(super) place: &'static str,
    /// In the order in which they are named; empty if none is.
    pub(super) addresses: Vec<IpAddr>,
}

/// The addresses that the Service names.
///
/// # Errors
/// What is wrong with them, or with two places that contradict each other.
pub(super) fn named(service: &Service, annotations: Annotations<'_>) -> Result<NamedAddresses, RequestError> {
    let field = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let field = field.map(|text| parse(FIELD, text)).transpose()?;
    let mut lists: Vec<(&'static str, Vec<IpAddr>)> = Vec::new();
    for entry in annotations.addresses() {
        lists.push((entry.annotation, parse_list(entry)?));
    }
    let disagree = |first: &'static str, says: &[IpAddr], second: &'static str, but: &[IpAddr]| {
        RequestError::Disagree { first, says: text(says), second, but: text(but) }
    };
    let mut lists = lists.into_iter();
    let Some((annotation, addresses)) = lists.next() else {
        return Ok(NamedAddresses { place: FIELD, addresses: field.into_iter().collect() });
    };
    for (other, theirs) in lists {
        let same = theirs.len() == addresses.len() && theirs.iter().all(|one| addresses.contains(one));
        if !same {
            return Err(disagree(annotation, &addresses, other, &theirs));
        }
    }
    match field {
        Some(field) if !addresses.contains(&field) => Err(disagree(FIELD, &[field], annotation, &addresses)),
        Some(_) | None => Ok(NamedAddresses { place: annotation, addresses }),
    }
}

fn parse_list(
    AnnotationValue { annotation, text }: AnnotationValue<'_>,
) -> Result<Vec<IpAddr>, RequestError> {
    let mut addresses = Vec::new();
    for item in text.split(',') {
        let address = parse(annotation, item.trim())?;
        if addresses.contains(&address) {
            return Err(RequestError::NamedTwice { place: annotation, address });
        }
        addresses.push(address);
    }
    for family in [Family::V4, Family::V6] {
        let number = of_family(&addresses, family);
        if number > usize::from(MOST_OF_A_FAMILY) {
            return Err(RequestError::TooManyNamed { place: annotation, family, number });
        }
    }
    Ok(addresses)
}

fn parse(place: &'static str, text: &str) -> Result<IpAddr, RequestError> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(RequestError::NotAnAddress { place, value: shortened(text) });
    };
    if let IpAddr::V6(v6) = address
        && let Some(v4) = v6.to_ipv4_mapped()
    {
        return Err(RequestError::Mapped { place, address: v6, v4 });
    }
    if address.is_unspecified() && place == KUBE_VIP_ADDRESSES {
        return Err(RequestError::Dhcp { place, address });
    }
    let why = match address {
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address"),
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    };
    match why {
        Some(why) => Err(RequestError::Unusable { place, address, why }),
        None => Ok(address),
    }
}

/// Checks named addresses against the families that the Service has.
///
/// # Errors
/// Naming the address or family that does not fit.
pub(super) fn fit(named: &NamedAddresses, families: Families) -> Result<(), RequestError> {
    let NamedAddresses { place, addresses } = named;
    if addresses.is_empty() {
        return Ok(());
    }
    let has = list(families);
    if let Some(address) = addresses.iter().find(|address| !has.contains(&Family::of(**address))) {
        let family = Family::of(*address);
        return Err(RequestError::OtherFamily { place, address: *address, family });
    }
    match families {
        Families::Require(both) => match both.into_iter().find(|family| of_family(addresses, *family) == 0) {
            Some(family) => Err(RequestError::FamilyNotNamed { place, family }),
            None => Ok(()),
        },
        Families::Single(_) | Families::Prefer(_) => Ok(()),
    }
}

/// Returns the desired number of addresses of each family.
///
/// # Errors
/// The number is out of bounds, or differs from that of the addresses named.
pub(super) fn count(annotations: Annotations<'_>, named: &NamedAddresses) -> Result<u8, RequestError> {
    let Some(AnnotationValue { text, .. }) = annotations.address_count() else { return Ok(1) };
    // `+3` is a number to Rust.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse::<u8>().ok().filter(|count| digits && (1..=MOST_OF_A_FAMILY).contains(count));
    let Some(count) = count else { return Err(RequestError::Count { value: shortened(text) }) };
    for family in [Family::V4, Family::V6] {
        let number = of_family(&named.addresses, family);
        if number != 0 && number != usize::from(count) {
            return Err(RequestError::CountAndNames { count, place: named.place, family, number });
        }
    }
    Ok(count)
}

fn of_family(addresses: &[IpAddr], family: Family) -> usize {
    addresses.iter().filter(|address| Family::of(**address) == family).count()
}

fn text(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}
