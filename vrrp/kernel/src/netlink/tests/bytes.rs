//! Bytes that the kernel may send.

use super::super::socket::{Body, frames};
use super::*;

/// A message with this type, flags and payload; sequence number 7.
fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(7u32.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An `ifinfomsg` of this family for an Ethernet interface with index 5, up and running, and attributes.
fn link(family: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![family, 0];
    bytes.extend(libc::ARPHRD_ETHER.to_ne_bytes());
    bytes.extend(5u32.to_ne_bytes());
    bytes.extend((libc::IFF_UP | libc::IFF_RUNNING).to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(attributes.concat());
    bytes
}

#[test]
fn a_datagram_of_several_messages_is_taken_apart_at_their_padding() {
    let mut datagram = message(libc::RTM_NEWADDR, 2, &[1, 2, 3, 4, 5]);
    datagram.extend(message(2, 0, &(-19i32).to_ne_bytes()));
    datagram.extend(message(3, 0, &[]));
    let bodies: Vec<_> = frames(&datagram).map(|frame| frame.unwrap().body).collect();
    let expected =
        [Body::Message(libc::RTM_NEWADDR, &[1, 2, 3, 4, 5]), Body::Answer(-19, &[]), Body::Done(0)];
    assert_eq!(bodies, expected);
}

#[test]
fn a_datagram_that_is_cut_off_is_refused_where_it_is_cut_and_never_read_beyond() {
    let mut datagram = message(libc::RTM_NEWADDR, 2, &[0; 8]);
    datagram.extend(message(2, 0, &[0; 20]));
    for length in 1..datagram.len() {
        let read: Vec<_> = frames(&datagram[..length]).collect();
        let whole = usize::from(length >= 24);
        assert_eq!(read.iter().filter(|frame| frame.is_ok()).count(), whole, "{length} bytes");
        assert_eq!(read.len(), if length == 24 { 1 } else { whole + 1 }, "{length} bytes");
    }
}

#[test]
fn a_message_that_says_it_has_no_length_ends_the_datagram() {
    assert_eq!(frames(&[0; 64]).filter(Result::is_err).count(), 1);
    assert_eq!(frames(&message(2, 0, &[1, 2])).filter(Result::is_err).count(), 1, "no error number");
}

#[test]
fn an_interface_is_read_whatever_else_the_kernel_tells_of_it() {
    let info = [attribute(1, b"macvlan\0"), attribute(2, &[9; 3])].concat();
    let attributes = [
        attribute(3, b"eth0\0"),
        attribute(1, &[2, 0, 0, 0, 0, 1]),
        attribute(4, &1500u32.to_ne_bytes()),
        attribute(5, &2u32.to_ne_bytes()),
        attribute(20, b"windlass:7\0"),
        attribute(18, &info),
        // Of a later kernel, and one that is known but has another size.
        attribute(999, &[1, 2, 3]),
        attribute(23, &[1]),
    ];
    let expected = Link {
        index: 5,
        name: "eth0".to_owned(),
        mac: Some([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        ethernet: true,
        up: true,
        running: true,
        kind: Some("macvlan".to_owned()),
        parent: Some(2),
        master: None,
        alias: Some("windlass:7".to_owned()),
    };
    let payload = link(0, &attributes);
    assert_eq!(Change::parse(libc::RTM_NEWLINK, &payload).unwrap(), Some(Change::Link(expected)));
    assert_eq!(Change::parse(libc::RTM_DELLINK, &payload).unwrap(), Some(Change::LinkGone(5)));
}

#[test]
fn an_interface_that_leaves_a_bridge_is_not_gone() {
    let payload = link(7, &[attribute(3, b"eth0\0")]);
    assert_eq!(Change::parse(libc::RTM_DELLINK, &payload).unwrap(), None);
    assert_eq!(Change::parse(libc::RTM_NEWLINK, &payload).unwrap(), None);
}

#[test]
fn what_is_too_short_is_refused() {
    for kind in [libc::RTM_NEWLINK, libc::RTM_DELLINK] {
        assert!(Change::parse(kind, &link(0, &[])[..15]).is_err());
    }
    for kind in [libc::RTM_NEWADDR, libc::RTM_DELADDR] {
        assert!(Change::parse(kind, &[2, 24, 0, 0, 5, 0, 0]).is_err());
        // An address of no address says nothing.
        assert_eq!(Change::parse(kind, &[2, 24, 0, 0, 5, 0, 0, 0]).unwrap(), None);
    }
    let cut = [2, 24, 0, 0, 5, 0, 0, 0, 8, 0, 1, 0, 192, 0];
    assert!(Change::parse(libc::RTM_NEWADDR, &cut).is_err());
}

#[test]
fn of_a_point_to_point_address_ours_is_the_local_one() {
    let mut payload = vec![2, 32, 0x80, 0, 5, 0, 0, 0];
    payload.extend(attribute(1, &[192, 0, 2, 2]));
    payload.extend(attribute(2, &[192, 0, 2, 1]));
    payload.extend(attribute(8, &0x280u32.to_ne_bytes()));
    payload.extend(attribute(11, &[0x57]));
    let expected = Address {
        index: 5,
        ip: [192, 0, 2, 1].into(),
        prefix: 32,
        peer: [192, 0, 2, 2].into(),
        scope: 0,
        flags: AddressFlags::Permanent | AddressFlags::Noprefixroute,
        protocol: 0x57,
    };
    assert_eq!(Change::parse(libc::RTM_NEWADDR, &payload).unwrap(), Some(Change::Address(expected)));
}

#[test]
fn a_refusal_for_lack_of_a_capability_names_it() {
    let refusal = Refusal { errno: Errno::EPERM, message: None };
    assert!(NetlinkError::from(refusal).to_string().contains("CAP_NET_ADMIN"));
    let refusal = Refusal { errno: Errno::ENODEV, message: Some("Device not found".to_owned()) };
    assert_eq!(
        NetlinkError::from(refusal).to_string(),
        "the kernel refused it: ENODEV: No such device (Device not found)"
    );
}
