//! Checks of capabilities, interfaces and source addresses that a router needs.

use std::io;
use std::net::IpAddr;

use socket2::{Domain, Protocol, Socket, Type};
use windlass_kernel::interfaces::{InterfaceInfo, Unusable};
use windlass_vrrp::{Family, wire};

use crate::link_state::Sources;
use crate::options::StartError;

/// Opens and closes one socket of each kind, to know at the start what is not permitted.
pub(crate) fn check_capabilities() -> Result<(), StartError> {
    let denied = |socket: &'static str| {
        move |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => StartError::MissingCapability { socket, source },
            _ => StartError::Os { what: "open a raw or packet socket", source },
        }
    };
    Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(wire::PROTOCOL))))
        .map_err(denied("raw"))?;
    Socket::new(Domain::PACKET, Type::RAW, None).map_err(denied("packet"))?;
    Ok(())
}

/// Returns the reason why this interface cannot carry a router, if there is one; `found` is the kernel's entry of that name.
pub(crate) fn interface_error(name: &str, found: Option<&InterfaceInfo>) -> Option<String> {
    match found {
        None => Some(format!(
            "interface {name} does not exist or is no Ethernet interface: check the name with `ip link`"
        )),
        Some(info) if !info.up => Some(format!("interface {name} is down: `ip link set {name} up`")),
        Some(info) if !info.carrier => {
            Some(format!("interface {name} has no carrier: check its cable or peer"))
        }
        Some(_) => None,
    }
}

/// Returns the reason why a router cannot run with this source, if there is one.
pub(crate) fn source_error(name: &str, source: IpAddr, sources: &Sources) -> Option<String> {
    if sources.usable.contains(&source) {
        return None;
    }
    let reason = sources.unusable.iter().find(|(address, _)| IpAddr::V6(*address) == source);
    if let Some((_, reason)) = reason {
        let remedy = match reason {
            Unusable::Tentative => "the router starts when that has ended",
            Unusable::Duplicate => "give one of the two another address",
        };
        return Some(format!(
            "{source} on interface {name}, the source of this router's adverts, {reason}: {remedy}"
        ));
    }
    let family = Family::of(source);
    let usable = sources.usable.iter().filter(|address| Family::of(**address) == family);
    let usable: Vec<String> = usable.map(ToString::to_string).collect();
    let has = match (usable.is_empty(), family) {
        (true, Family::V4) => "no IPv4 address".to_owned(),
        (true, Family::V6) => "no usable IPv6 address".to_owned(),
        (false, Family::V4 | Family::V6) => usable.join(", "),
    };
    Some(format!(
        "interface {name} does not have {source}, the source of this router's adverts, but {has}: \
         add the address or correct the source"
    ))
}
