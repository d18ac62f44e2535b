//! The netlink messages for bound addresses.

use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, AddressScope, CacheInfo,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::bindings::{AddressOp, Binding};

/// The message and flags of an operation. `tag` marks the address (IFA_PROTO, Linux 5.18): only what bears it is ever removed.
///
/// The address is a host's (/32, /128) without a route of its own, so that neither the interface's subnet nor
/// `promote_secondaries` is touched, and comes without duplicate address detection, which would delay it: the engine has
/// probed for it. The tag goes with every renewal: one without clears it.
///
/// In IPv6 the preferred lifetime is 0, so that the VIP is never chosen as a source. IPv4 knows nothing like that. Its scope is
/// global, as the kernel puts narrower ones before the interface's own addresses: so the VIP comes after those that were
/// there first, which stay the primary ones and the sources.
pub(super) fn message_of(op: AddressOp, lifetime: Duration, tag: u8) -> (RouteNetlinkMessage, u16) {
    match op {
        AddressOp::Add(binding) => {
            (RouteNetlinkMessage::NewAddress(message(binding, lifetime, tag)), NLM_F_CREATE | NLM_F_EXCL)
        }
        AddressOp::Renew(binding) => {
            (RouteNetlinkMessage::NewAddress(message(binding, lifetime, tag)), NLM_F_CREATE | NLM_F_REPLACE)
        }
        AddressOp::Remove(binding) => (RouteNetlinkMessage::DelAddress(bare(binding)), 0),
    }
}

fn bare(binding: Binding) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = binding.interface;
    message.attributes.push(AddressAttribute::Local(binding.address));
    message.attributes.push(AddressAttribute::Address(binding.address));
    (message.header.family, message.header.prefix_len) = match binding.address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    message
}

fn message(binding: Binding, lifetime: Duration, tag: u8) -> AddressMessage {
    let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
    let mut message = bare(binding);
    let mut cache = CacheInfo::default();
    cache.ifa_valid = seconds;
    let flags = match binding.address {
        IpAddr::V4(_) => {
            message.header.scope = AddressScope::Universe;
            cache.ifa_preferred = seconds;
            AddressFlags::Noprefixroute
        }
        IpAddr::V6(_) => AddressFlags::Noprefixroute | AddressFlags::Nodad,
    };
    message.attributes.push(AddressAttribute::Flags(flags));
    message.attributes.push(AddressAttribute::CacheInfo(cache));
    message.attributes.push(AddressAttribute::Protocol(AddressProtocol::Other(tag)));
    message
}
