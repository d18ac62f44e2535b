//! The nodes, the servers on them, and the families of addresses.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use serde::Serialize;

/// The node that has the addresses while all is well, and the one that takes them over.
pub(crate) const FIRST: &str = "n1";
pub(crate) const SECOND: &str = "n2";
/// The node that never has an address.
pub(crate) const THIRD: &str = "n3";
/// The port of the first place; those of the others follow.
const FIRST_PORT: u16 = 80;
/// Limit of what takes seconds when all is well.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// Place of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a pod on the first node.
    First,
    /// In a pod on the second node.
    Second,
    /// In a pod on the third node.
    Third,
    /// On the third node itself, as with `hostNetwork`.
    Host,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::First, Self::Second, Self::Third, Self::Host];

    /// Name of its backend.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Host => "host",
        }
    }

    /// The node that it is on.
    pub(crate) fn node(self) -> &'static str {
        match self {
            Self::First => FIRST,
            Self::Second => SECOND,
            Self::Third | Self::Host => THIRD,
        }
    }

    /// Port of its Services: those of one address share it.
    pub(crate) fn port(self) -> u16 {
        let behind = match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Third => 2,
            Self::Host => 3,
        };
        FIRST_PORT + behind
    }
}

/// Family of addresses, as `FAMILIES` and the rows have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Name in a Service's `ipFamilies`.
    pub(crate) fn of_service(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// An address of the lab's LAN that ends with these three digits.
    pub(crate) fn address(self, end: u8) -> anyhow::Result<IpAddr> {
        let text = match self {
            Self::V4 => format!("192.0.2.{end}"),
            Self::V6 => format!("2001:db8::{end}"),
        };
        Ok(text.parse()?)
    }
}

/// Makes a Service one of the family, at the port of the place.
pub(crate) fn offer(service: &mut Service, family: Family, place: Place) {
    let spec = service.spec.get_or_insert_default();
    spec.ip_families = Some(vec![family.of_service().into()]);
    for port in spec.ports.iter_mut().flatten() {
        port.port = place.port().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_port_and_a_backend_of_its_own() {
        let mut seen: Vec<_> = Place::ALL.iter().map(|place| (place.port(), place.backend())).collect();
        seen.dedup_by(|a, b| a.0 == b.0 || a.1 == b.1);
        assert_eq!(seen.len(), Place::ALL.len());
    }
}
