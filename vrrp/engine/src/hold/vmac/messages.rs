//! The netlink messages for devices.

use netlink_packet_core::{DefaultNla, NLA_F_NESTED, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoMacVlan, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::device::DeviceId;

/// Attribute of `IFLA_AF_SPEC` for IPv4: settings as in /proc/sys/net/ipv4/conf.
const IFLA_INET_CONF: u16 = 1;

/// A message with its flags.
pub(super) type Request = (RouteNetlinkMessage, u16);

/// A setting of an interface for IPv4: `IPV4_DEVCONF_…` of linux/ip.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    Forwarding = 1,
    RpFilter = 8,
    ArpAnnounce = 18,
    ArpIgnore = 19,
}

/// Makes the device, down, if there is none of its name.
///
/// The mode is `bridge` and not `private`: a private device takes all multicast that comes with its own MAC address as
/// source, and that is how the adverts of another Active come. Two Actives would never hear each other.
pub(super) fn create(id: DeviceId) -> Request {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(id.name()),
        LinkAttribute::Link(id.parent),
        LinkAttribute::Address(id.mac().to_vec()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::MacVlan),
            LinkInfo::Data(InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)])),
        ]),
    ];
    (RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// Marks the device. Right after [`create`] and only if that was not refused: it goes by the name.
pub(super) fn mark(id: DeviceId, alias: String) -> Request {
    named(id, LinkAttribute::IfAlias(alias))
}

/// Has the kernel give it no link-local address, which it would announce.
pub(super) fn without_link_local(id: DeviceId) -> Request {
    let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
    named(id, LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]))
}

fn named(id: DeviceId, attribute: LinkAttribute) -> Request {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(id.name()), attribute];
    (RouteNetlinkMessage::SetLink(message), 0)
}

/// Lets nothing out of the interface: it only receives.
pub(super) fn blackhole(index: u32) -> Request {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind("blackhole".to_owned()));
    (RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE)
}

/// Sets an interface up or down.
pub(super) fn set_up(index: u32, up: bool) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.change_mask = LinkFlags::Up;
    message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    (RouteNetlinkMessage::SetLink(message), 0)
}

/// Removes an interface.
pub(super) fn remove(index: u32) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    (RouteNetlinkMessage::DelLink(message), 0)
}

/// Changes settings of an interface: by netlink, since /proc/sys is read-only in containers.
pub(super) fn set(index: u32, settings: &[(Setting, u32)]) -> Request {
    let mut bytes = Vec::new();
    for (setting, value) in settings {
        // Length and type of the attribute, and its value.
        bytes.extend_from_slice(&8_u16.to_ne_bytes());
        bytes.extend_from_slice(&(*setting as u16).to_ne_bytes());
        bytes.extend_from_slice(&value.to_ne_bytes());
    }
    let settings = AfSpecInet::Other(DefaultNla::new(IFLA_INET_CONF | NLA_F_NESTED, bytes));
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![settings])])];
    (RouteNetlinkMessage::SetLink(message), 0)
}
