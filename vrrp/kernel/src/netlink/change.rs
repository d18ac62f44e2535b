//! Interfaces and addresses as the kernel reports them.

use std::net::IpAddr;

use netlink_packet_core::{DecodeError, NlasIterator, Parseable};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkHeader, LinkLayerType};

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
/// Attribute of `IFLA_LINKINFO`.
const IFLA_INFO_KIND: u16 = 1;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Index.
    pub index: u32,
    /// Name, as `eth0`.
    pub name: String,
    /// Link-layer address; `None` if it has none or one that is not 6 bytes long.
    pub mac: Option<[u8; 6]>,
    /// Bytes.
    pub mtu: u32,
    /// True if its link layer is Ethernet's and it is not the loopback.
    pub ethernet: bool,
    /// Administratively up.
    pub up: bool,
    /// Up and able to carry packets, as the kernel judges (IFF_RUNNING).
    pub running: bool,
    /// Kind of virtual device, as `macvlan`.
    pub kind: Option<String>,
    /// Index of the interface it sits on.
    pub parent: Option<u32>,
    /// Index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Alias, as set by `ip link set … alias`.
    pub alias: Option<String>,
}

/// An address of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Index of the interface.
    pub index: u32,
    /// The interface's own address.
    pub ip: IpAddr,
    /// Length of the prefix, in bits.
    pub prefix: u8,
    /// The other end of a point-to-point address, else the address itself.
    pub peer: IpAddr,
    /// RT_SCOPE_…: 0 is global, 253 link.
    pub scope: u8,
    /// IFA_F_… flags.
    pub flags: AddressFlags,
    /// Program that added it (IFA_PROTO, Linux 5.18); 0 if not reported.
    pub protocol: u8,
}

/// Change of an interface or address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The interface exists, with these properties.
    Link(Link),
    /// The interface with this index is gone, and its addresses with it.
    LinkGone(u32),
    /// The address exists, with these properties.
    Address(Address),
    /// The address is gone.
    AddressGone(Address),
}

impl Change {
    /// Parses a message; `None` if it is about something else.
    pub(super) fn parse(kind: u16, payload: &[u8]) -> Result<Option<Self>, DecodeError> {
        Ok(match kind {
            libc::RTM_NEWLINK => link(payload)?.map(Self::Link),
            libc::RTM_DELLINK => link(payload)?.map(|link| Self::LinkGone(link.index)),
            libc::RTM_NEWADDR => address(payload)?.map(Self::Address),
            libc::RTM_DELADDR => address(payload)?.map(Self::AddressGone),
            _ => None,
        })
    }
}

fn link(payload: &[u8]) -> Result<Option<Link>, DecodeError> {
    let header = LinkHeader::parse(payload)?;
    // AF_BRIDGE: about a bridge's port, which "goes" when it leaves the bridge. Not about the interface.
    if header.interface_family != AddressFamily::Unspec {
        return Ok(None);
    }
    let mut link = Link {
        index: header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        ethernet: header.link_layer_type == LinkLayerType::Ether
            && !header.flags.contains(LinkFlags::Loopback),
        up: header.flags.contains(LinkFlags::Up),
        running: header.flags.contains(LinkFlags::Up | LinkFlags::Running),
        kind: None,
        parent: None,
        master: None,
        alias: None,
    };
    for attribute in NlasIterator::new(&payload[LINK_HEADER..]) {
        let attribute = attribute?;
        let value = attribute.value();
        match attribute.kind() {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok(),
            libc::IFLA_MTU => link.mtu = number(value).unwrap_or_default(),
            libc::IFLA_LINK => link.parent = number(value),
            libc::IFLA_MASTER => link.master = number(value),
            libc::IFLA_IFALIAS => link.alias = Some(text(value)),
            libc::IFLA_LINKINFO => {
                for part in NlasIterator::new(value) {
                    let part = part?;
                    if part.kind() == IFLA_INFO_KIND {
                        link.kind = Some(text(part.value()));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Some(link))
}

fn address(payload: &[u8]) -> Result<Option<Address>, DecodeError> {
    let message = AddressMessage::parse(payload)?;
    let (mut own, mut peer, mut protocol) = (None, None, 0);
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(address) => own = Some(address),
            AddressAttribute::Address(address) => peer = Some(address),
            AddressAttribute::Flags(all) => flags = all,
            AddressAttribute::Protocol(number) => protocol = number.into(),
            // Of no interest; more come with new kernels.
            _ => {}
        }
    }
    let Some((ip, peer)) = own.or(peer).zip(peer.or(own)) else { return Ok(None) };
    let (index, prefix) = (message.header.index, message.header.prefix_len);
    Ok(Some(Address { index, ip, prefix, peer, scope: message.header.scope.into(), flags, protocol }))
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}
