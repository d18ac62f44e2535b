//! Marks of addresses (IFA_PROTO), which not every `ip` knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressProtocol};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::lab::Host;

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// Asks the kernel of the calling thread's namespace; its answers up to the last.
fn ask(message: RouteNetlinkMessage, flags: u16) -> Vec<RouteNetlinkMessage> {
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let mut request = Message::from(message);
    request.header.flags = NLM_F_REQUEST | flags;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0).unwrap();
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full().unwrap();
        let mut rest = datagram.as_slice();
        while !rest.is_empty() {
            let answer = Message::deserialize(rest).unwrap();
            rest = &rest[(answer.header.length as usize).next_multiple_of(4).min(rest.len())..];
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Error(error) => {
                    assert_eq!(error.raw_code(), 0, "{error:?}");
                    return answers;
                }
                _ => return answers,
            }
        }
    }
}

/// Adds an address with this mark to `eth0`.
pub(super) fn add(host: &Host, address: IpAddr, prefix: u8, mark: u8) {
    host.run(move || {
        let mut message = AddressMessage::default();
        message.header.index = nix::net::if_::if_nametoindex("eth0").unwrap();
        message.header.prefix_len = prefix;
        message.header.family = match address {
            IpAddr::V4(_) => netlink_packet_route::AddressFamily::Inet,
            IpAddr::V6(_) => netlink_packet_route::AddressFamily::Inet6,
        };
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Protocol(AddressProtocol::from(mark)),
        ];
        ask(RouteNetlinkMessage::NewAddress(message), NLM_F_ACK | NLM_F_CREATE)
    });
}

/// All addresses of the host with their prefix lengths and marks; 0 where there is none.
pub(super) fn all(host: &Host) -> BTreeMap<(IpAddr, u8), u8> {
    let answers = host.run(|| ask(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP));
    let read = |answer| {
        let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
        let (mut address, mut mark) = (None, 0);
        for attribute in message.attributes {
            match attribute {
                AddressAttribute::Address(found) => address = Some(found),
                AddressAttribute::Protocol(found) => mark = found.into(),
                _ => {}
            }
        }
        Some(((address?, message.header.prefix_len), mark))
    };
    answers.into_iter().filter_map(read).collect()
}
