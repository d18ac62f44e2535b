//! The kernel runs the filters here, on a pair of sockets that carries any bytes.

use std::io::Read;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use windlass_vrrp::Family;

use super::*;
use crate::connections::request;
use crate::connections::{Connection, ConnectionKey, Transport};
use crate::netfilter::message::{TableFamily, question};

/// A message that begins as an event about a connection to this VIP does.
fn about(vip: &str) -> Vec<u8> {
    let vip: IpAddr = vip.parse().unwrap();
    let client: IpAddr = match Family::of(vip) {
        Family::V4 => [192, 0, 2, 3].into(),
        Family::V6 => "2001:db8::3".parse().unwrap(),
    };
    let key = ConnectionKey { transport: Transport::Tcp, client: (client, 1).into(), vip: (vip, 80).into() };
    let connection = Connection { key, backend: key.client, source: key.client };
    let (operation, attributes) = request::insert(&connection, Duration::from_secs(1));
    question(operation, TableFamily::Inet, &attributes, 0)
}

fn passes(vips: &[&str], about_vip: &str) -> bool {
    let program = program(&vips.iter().map(|vip| vip.parse().unwrap()).collect());
    let (out, inbound) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
    inbound.set_nonblocking(true).unwrap();
    inbound.attach_filter(&program).unwrap();
    // The filter's refusal is an error of the sender on this kind of socket, or silence.
    let _ = out.send(&about(about_vip));
    (&inbound).read(&mut [0; 1024]).is_ok()
}

#[test]
fn connections_to_the_vips_pass_and_others_do_not() {
    let all = ["192.0.2.50", "192.0.2.51", "2001:db8::50", "2001:db8::51"];
    for vip in all {
        assert!(passes(&all, vip), "{vip}");
        assert!(passes(&[vip], vip), "{vip}");
        assert!(!passes(&[], vip), "{vip}");
        let others: Vec<_> = all.into_iter().filter(|other| *other != vip).collect();
        assert!(!passes(&others, vip), "{vip}");
    }
    // The last 32 bits of one family are nothing in the other.
    assert!(!passes(&["::c000:232"], "192.0.2.50"));
    assert!(!passes(&["192.0.2.50"], "2001:db8::c000:232"));
}

#[test]
fn as_many_vips_as_fit_are_told_apart_and_of_more_all_pass() {
    let many = |count: u32| -> Vec<String> {
        (0..count).map(|n| std::net::Ipv4Addr::from_bits(0xc612_0000 + n).to_string()).collect()
    };
    let (most, too_many) = (many(256), many(257));
    let most: Vec<_> = most.iter().map(String::as_str).collect();
    let too_many: Vec<_> = too_many.iter().map(String::as_str).collect();
    for vip in [most[0], most[255]] {
        assert!(passes(&most, vip), "{vip}");
    }
    assert!(!passes(&most, "192.0.2.50"));
    assert!(!passes(&most, "2001:db8::50"));
    assert!(passes(&too_many, "192.0.2.50"));
}
