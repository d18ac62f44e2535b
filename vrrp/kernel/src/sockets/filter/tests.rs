//! The kernel runs the filters here, on a pair of sockets that carries any bytes.

use std::io::Read;

use socket2::{Domain, Socket, Type};

use super::*;

fn set(vrids: &[u8]) -> VridSet {
    vrids.iter().map(|vrid| Vrid::new(*vrid).unwrap()).collect()
}

fn from_anyone(vrids: VridSet) -> AdvertFilter {
    AdvertFilter::new(vrids, std::iter::empty()).with_any_source()
}

/// Which of these packets pass.
fn passing(filter: &[SockFilter], packets: &[Vec<u8>]) -> Vec<usize> {
    let (out, inbound) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
    inbound.set_nonblocking(true).unwrap();
    inbound.attach_filter(filter).unwrap();
    let passes = |packet: &Vec<u8>| {
        // The filter's refusal is an error of the sender on this kind of socket, or silence.
        let _ = out.send(packet);
        (&inbound).read(&mut [0; 256]).is_ok()
    };
    (0..packets.len()).filter(|n| passes(&packets[*n])).collect()
}

fn v6(vrid: u8) -> Vec<u8> {
    vec![0x31, vrid, 100, 1, 0, 100, 0, 0]
}

/// With `options` words of IP options before the message.
fn v4(vrid: u8, options: u8) -> Vec<u8> {
    let mut packet = vec![0x45 + options];
    packet.resize(20 + 4 * usize::from(options), vrid.wrapping_add(1));
    packet.extend(v6(vrid));
    packet
}

#[test]
fn every_vrid_goes_to_exactly_one_of_the_two_sockets() {
    let own_vrids = [1, 31, 32, 63, 64, 200, 255];
    let set = set(&own_vrids);
    for (family, packets) in [
        (Family::V4, (0..=255).map(|vrid| v4(vrid, vrid % 3)).collect::<Vec<_>>()),
        (Family::V6, (0..=255).map(v6).collect()),
    ] {
        let set = from_anyone(set);
        let mine = passing(&own(family, &set), &packets);
        assert_eq!(mine, own_vrids.map(usize::from), "{family}");
        let others = passing(&foreign(family, &set), &packets);
        let expected: Vec<usize> = (0..256).filter(|n| !mine.contains(n)).collect();
        assert_eq!(others, expected, "{family}");
    }
}

#[test]
fn what_is_too_short_for_a_vrid_goes_to_the_census() {
    let everything = from_anyone((1..=255).map(|vrid| Vrid::new(vrid).unwrap()).collect());
    let header = v4(7, 0)[..20].to_vec();
    for (family, short) in [
        (Family::V4, [header.clone(), [header, vec![0x31]].concat()]),
        (Family::V6, [vec![0x31], vec![0x21]]),
    ] {
        assert!(passing(&own(family, &everything), &short).is_empty(), "{family}");
        assert_eq!(passing(&foreign(family, &everything), &short), [0, 1], "{family}");
    }
}

#[test]
fn a_socket_without_routers_gets_nothing_and_its_census_everything() {
    let packets = [v6(1), v6(255)];
    assert!(passing(&nothing(), &packets).is_empty());
    assert!(passing(&own(Family::V6, &AdvertFilter::NOTHING), &packets).is_empty());
    assert_eq!(passing(&foreign(Family::V6, &AdvertFilter::NOTHING), &packets), [0, 1]);
}

// shows: rfc9568 B3
/// (Of IPv6 a packet on this kind of socket has no network header: `hostile` of the laboratory tries that.)
#[test]
fn adverts_of_others_than_the_candidates_go_to_the_census() {
    let source = |last: u8| IpAddr::from([192, 0, 2, last]);
    let from = |last: u8, vrid| {
        let mut packet = v4(vrid, 0);
        packet[12..16].copy_from_slice(&[192, 0, 2, last]);
        packet
    };
    for count in [1, 2, 200] {
        let candidates = || (1..=count).map(source);
        let filter = AdvertFilter::new(set(&[7]), candidates());
        let packets: Vec<Vec<u8>> = (0..=255).map(|last| from(last, 7)).collect();
        let mine = passing(&own(Family::V4, &filter), &packets);
        assert_eq!(mine, (1..=usize::from(count)).collect::<Vec<_>>());
        let others = passing(&foreign(Family::V4, &filter), &packets);
        assert_eq!(others, (0..256).filter(|n| !mine.contains(n)).collect::<Vec<_>>());
        assert!(passing(&own(Family::V4, &filter), &[from(1, 8)]).is_empty(), "another VRID");
        assert!(filter.passes(Vrid::new(7).unwrap(), &candidates().collect()));
        assert!(!filter.passes(Vrid::new(7).unwrap(), &[source(201)].into()));
        assert!(!filter.passes(Vrid::new(8).unwrap(), &[source(1)].into()));
    }
}

#[test]
fn of_more_candidates_than_a_filter_can_tell_apart_everybody_is_heard() {
    let source = |number: u32| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + number));
    let filter = |count| AdvertFilter::new(set(&[7]), (0..count).map(source));
    let stranger = [v4(7, 0)];
    assert!(passing(&own(Family::V4, &filter(256)), &stranger).is_empty());
    assert_eq!(passing(&own(Family::V4, &filter(257)), &stranger), [0]);
}
