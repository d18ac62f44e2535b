use std::net::{IpAddr, Ipv4Addr};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::tests::{Listener, NODE, NODE_V6, prefix};
use crate::units::Asn;
use crate::wire::{Communities, Community, NextHop, NextHopV6};

type Routes = BTreeMap<Prefix, Arc<Attributes>>;

fn peering() -> Peering {
    Peering {
        local_as: Asn::new(64512).unwrap(),
        is_internal: false,
        four_octet: true,
        ipv4: Some(NextHop::V4(NODE)),
        ipv6: Some(NextHopV6(NODE_V6.parse().unwrap(), None)),
    }
}

fn marked(mark: u16) -> Arc<Attributes> {
    let communities = Communities::new([Community::new(64512, mark)]).unwrap();
    Arc::new(Attributes { communities, ..Attributes::default() })
}

fn routes(of: &[(&str, &Arc<Attributes>)]) -> Routes {
    of.iter().map(|(text, attributes)| (prefix(text), Arc::clone(attributes))).collect()
}

fn many(count: u32, attributes: &Arc<Attributes>) -> Routes {
    let address = |number| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + number));
    (0..count).map(|number| (address(number).try_into().unwrap(), Arc::clone(attributes))).collect()
}

/// Sends up to `limit` messages. Returns their number.
fn flush(rib: &mut RibOut, listener: &mut Listener, limit: usize) -> usize {
    let mut sent = 0;
    let mut out = Vec::new();
    while sent < limit && rib.next_update(&mut out) {
        assert_eq!(listener.receive(&out), out.len());
        out.clear();
        sent += 1;
    }
    sent
}

fn established(desired: Routes) -> (RibOut, Listener) {
    let (mut rib, mut listener) = (RibOut::default(), Listener::default());
    rib.open(peering());
    rib.set(desired);
    flush(&mut rib, &mut listener, usize::MAX);
    assert_eq!(rib.sent(), listener.table.len());
    (rib, listener)
}

// shows: bgp B40
#[test]
fn only_the_difference_is_sent() {
    let (a, b) = (marked(1), marked(2));
    let (mut rib, mut listener) = established(routes(&[("203.0.113.10", &a), ("203.0.113.11", &a)]));
    assert_eq!((listener.announcements, listener.withdrawals), (1, 0));
    rib.set(routes(&[("203.0.113.10", &a), ("203.0.113.12", &b), ("2001:db8:f::10", &b)]));
    assert!(!rib.is_converged());
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 3);
    assert_eq!((listener.announcements, listener.withdrawals), (3, 1));
    assert!(rib.is_converged());
}

// shows: bgp B40
#[test]
fn a_change_that_this_peer_does_not_see_is_not_sent() {
    let (mut rib, mut listener) = established(routes(&[("203.0.113.10", &marked(1))]));
    let preferred = Arc::new(Attributes { local_preference: 7, ..Attributes::clone(&marked(1)) });
    rib.set(routes(&[("203.0.113.10", &preferred)]));
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 0);
}

// shows: bgp B40
#[test]
fn a_prefix_that_flaps_while_the_peer_is_slow_costs_one_message() {
    let (mut rib, mut listener) = established(routes(&[("203.0.113.10", &marked(1))]));
    for mark in 2..100 {
        rib.set(Routes::new());
        rib.set(routes(&[("203.0.113.10", &marked(mark))]));
    }
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 1);
    rib.set(Routes::new());
    rib.set(routes(&[("203.0.113.10", &marked(99))]));
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 0);
}

// shows: bgp B41
#[test]
fn withdrawals_go_first() {
    let (mut rib, mut listener) = established(many(1000, &marked(1)));
    rib.set(routes(&[("2001:db8:f::10", &marked(1)), ("203.0.113.10", &marked(2))]));
    assert_eq!(flush(&mut rib, &mut listener, 2), 2);
    assert!(listener.table.is_empty());
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 2);
}

// shows: bgp B42
#[test]
fn ten_thousand_prefixes_take_thirteen_messages() {
    let attributes = Arc::new(Attributes::default());
    let (mut rib, mut listener) = established(many(10_000, &attributes));
    assert_eq!((listener.announcements, listener.table.len()), (13, 10_000));
    rib.set(Routes::new());
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 13);
    assert!(listener.table.is_empty());
}

// shows: bgp B50
#[test]
fn the_first_full_table_ends_with_a_marker_of_each_family_also_when_it_is_empty() {
    let mut rib = RibOut::default();
    rib.open(Peering { ipv6: None, ..peering() });
    rib.set(many(1000, &marked(1)));
    let mut listener = Listener::default();
    flush(&mut rib, &mut listener, 2);
    assert!(listener.ends_of_rib.is_empty());
    flush(&mut rib, &mut listener, 1);
    assert_eq!(listener.ends_of_rib, [Family::V4].into());
    let (_, listener) = established(Routes::new());
    assert_eq!(listener.ends_of_rib, Family::ALL.into());
}

// shows: bgp B51
#[test]
fn a_family_without_next_hop_is_not_sent() {
    let mut rib = RibOut::default();
    rib.set(routes(&[("203.0.113.10", &marked(1)), ("2001:db8:f::10", &marked(1))]));
    rib.open(Peering { ipv6: None, ..peering() });
    let mut listener = Listener::default();
    flush(&mut rib, &mut listener, usize::MAX);
    assert!(rib.is_converged());
    assert_eq!(listener.table.keys().map(ToString::to_string).collect::<Vec<_>>(), ["203.0.113.10/32"]);
}

// shows: bgp B57
#[test]
fn a_refresh_sends_the_routes_of_its_family_again() {
    let both = routes(&[("203.0.113.10", &marked(1)), ("2001:db8:f::10", &marked(1))]);
    let (mut rib, mut listener) = established(both);
    rib.refresh(Family::V6);
    assert_eq!((flush(&mut rib, &mut listener, usize::MAX), listener.announcements), (1, 3));
}

// shows: bgp B57
#[test]
fn a_route_that_goes_while_all_are_sent_again_is_withdrawn() {
    let (mut rib, mut listener) = established(routes(&[("203.0.113.10", &marked(1))]));
    rib.refresh(Family::V4);
    rib.set(Routes::new());
    assert_eq!(flush(&mut rib, &mut listener, usize::MAX), 1);
    assert!(listener.table.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<(u8, u16)>),
    Refresh(Family),
    Flush(usize),
    Reset,
}

/// Few prefixes of both families and few marks, so that they meet again.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let routes = btree_map(0_u8..24, 0_u16..3, 0..24).prop_map(|routes| routes.into_iter().collect());
    let step = prop_oneof![
        4 => routes.prop_map(Step::Set),
        2 => prop_oneof![Just(Family::V4), Just(Family::V6)].prop_map(Step::Refresh),
        4 => (0_usize..4).prop_map(Step::Flush),
        1 => Just(Step::Reset),
    ];
    vec(step, 0..40)
}

fn drawn(routes: &[(u8, u16)]) -> Routes {
    let text = |n: u8| if n < 12 { format!("203.0.113.{n}") } else { format!("2001:db8:f::{n}") };
    routes.iter().map(|(number, mark)| (prefix(&text(*number)), marked(*mark))).collect()
}

proptest! {
    // shows: bgp B40, B41, B57
    /// The listener refuses a withdrawal of what was not announced, and messages of two kinds.
    #[test]
    fn the_peer_has_the_desired_routes_after_any_history(steps in steps()) {
        let (mut rib, mut listener) = (RibOut::default(), Listener::default());
        let mut desired = Routes::new();
        rib.open(peering());
        for step in steps {
            match step {
                Step::Set(routes) => {
                    desired = drawn(&routes);
                    rib.set(desired.clone());
                }
                Step::Refresh(family) => rib.refresh(family),
                Step::Flush(messages) => _ = flush(&mut rib, &mut listener, messages),
                Step::Reset => {
                    rib.close();
                    prop_assert!(rib.is_converged());
                    listener = Listener::default();
                    rib.open(peering());
                }
            }
        }
        flush(&mut rib, &mut listener, usize::MAX);
        prop_assert!(rib.is_converged());
        prop_assert_eq!(listener.ends_of_rib.len(), 2);
        let seen: BTreeMap<_, _> = listener.table.iter().map(|(p, route)| (*p, route.value(8).unwrap().to_vec())).collect();
        let wanted = desired.iter().map(|(p, attributes)| {
            let encoded = attributes.encode(&peering(), peering().next_hop(p.family()).unwrap());
            (*p, encoded[encoded.len() - 4..].to_vec())
        });
        prop_assert_eq!(seen, wanted.collect());
    }
}
