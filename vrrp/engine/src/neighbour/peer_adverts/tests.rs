use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_vrrp::auth::{AntiReplay, AuthMode, Authentication, Authenticator, Key, KeyId, Keyring, Window};
use windlass_vrrp::wire::{AddressList, Advert, Checksum, Path};
use windlass_vrrp::{Family, Interval, Priority, Time, Version, Vrid};

use super::*;
use crate::config::RouterConfig;
use crate::core::holding_plan::plan;
use crate::core::predecessor::Predecessor;
use crate::handle::{ActiveState, RouterHandle};
use crate::neighbour::tracker::{RouterTracker, RouterView};

const LINK: SocketsId = 1;
const ROUTER: HandleId = 7;

fn last(octet: u8) -> IpAddr {
    [192, 0, 2, octet].into()
}

fn vip() -> IpAddr {
    last(50)
}

/// Host 2 with the peers 1 and 3, priority 100, Active with one VIP.
fn active(authentication: Option<Authentication>) -> FollowedRouter {
    let config = RouterConfig {
        peers: [last(1), last(3)].into(),
        addresses: [vip()].into(),
        authentication,
        ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), last(2))
    };
    let plan = plan(&config, &BTreeSet::new(), &BTreeSet::new(), None);
    let mut tracker = RouterTracker::default();
    let view = RouterView {
        active_state: ActiveState {
            active: true,
            takeover: 1,
            contentions: 0,
            predecessor: Predecessor::Established,
        },
        addresses: &plan.addresses,
        bound: &Arc::default(),
        hold: plan.hold,
        probe: plan.probe,
        unproven: &plan.unproven,
        forced: &plan.forced,
        in_service: &plan.in_service,
        link: Some(LINK),
    };
    tracker.follow(&view, Time::default());
    assert!(tracker.claims(vip()));
    FollowedRouter {
        handle: Arc::new(RouterHandle::new(config.key(), plan.clone())),
        authenticator: Authenticator::new(config.authentication),
        plan: Arc::new(plan),
        tracker,
        waits_until: None,
        unicast: None,
    }
}

/// An advert of another virtual router; with no priority a resignation.
fn advert(source: IpAddr, priority: Option<u8>, listed: &[IpAddr], sign: Option<Authentication>) -> Vec<u8> {
    let listed = listed.iter().copied().collect();
    let advert = Advert {
        path: Path::new(source, wire::default_group(Family::V4)).unwrap(),
        ttl: wire::TTL,
        vrid: Vrid::new(8).unwrap(),
        priority: priority.map(|priority| Priority::new(priority).unwrap()),
        interval: Interval::from_millis(100).unwrap(),
        addresses: AddressList::representing(&listed, source, 255),
    };
    let mut signer = Authenticator::new(sign);
    advert.signed_datagram(Version::V3, Checksum::Rfc9568, |data| signer.sign(data, clock::wall()))
}

/// What this router is told by an advert, if so many VIPs may be looked up.
fn told(router: FollowedRouter, advert: &[u8], lookups: usize) -> Vec<PeerClaim> {
    let mut followed = BTreeMap::from([(ROUTER, router)]);
    let by_address = BTreeSet::from([(LINK, vip(), ROUTER)]);
    let mut adverts = PeerAdverts { lookups, ..PeerAdverts::new(LINK) };
    let datagram = Datagram::from_ipv4(advert).unwrap();
    adverts.hear(&datagram, &any(&datagram), &by_address, &mut followed);
    let claims = adverts.claims.into_iter();
    claims
        .map(|(id, address, claim)| {
            assert_eq!((id, address), (ROUTER, vip()));
            claim
        })
        .collect()
}

/// The same of a router without authentication.
fn heard(source: u8, priority: Option<u8>, listed: &[IpAddr]) -> Vec<PeerClaim> {
    told(active(None), &advert(last(source), priority, listed, None), LISTED_A_ROUND)
}

fn secret(byte: u8) -> Authentication {
    let key = format!("hex:{}", format!("{byte:02x}").repeat(32)).parse::<Key>().unwrap();
    Authentication {
        keyring: Keyring::new(KeyId::new(1).unwrap(), key),
        mode: AuthMode::Enforce,
        anti_replay: AntiReplay::Window(Window::from_seconds(30).unwrap()),
    }
}

#[test]
fn of_two_that_serve_a_vip_in_different_routers_the_one_goes_first_that_would_win_an_election() {
    for (source, priority, expected) in [
        (1, Some(101), vec![PeerClaim::GoesFirst]),
        (1, Some(100), vec![]),
        (3, Some(100), vec![PeerClaim::GoesFirst]),
        (3, Some(99), vec![]),
        (3, None, vec![PeerClaim::Resigned]),
        (1, None, vec![PeerClaim::Resigned]),
    ] {
        assert_eq!(heard(source, priority, &[last(49), vip()]), expected, "{source} with {priority:?}");
    }
}

#[test]
fn nobody_goes_first_who_is_no_peer_or_does_not_list_the_vip() {
    for (source, listed) in [(4, vip()), (2, vip()), (3, last(49))] {
        for priority in [Some(254), None] {
            assert_eq!(heard(source, priority, &[listed]), [], "{source}, {listed}");
        }
    }
}

#[test]
fn where_adverts_are_signed_nobody_goes_first_without_the_key() {
    let signed =
        |sign| told(active(Some(secret(1))), &advert(last(3), Some(254), &[vip()], sign), LISTED_A_ROUND);
    assert_eq!(signed(None), []);
    assert_eq!(signed(Some(secret(2))), []);
    assert_eq!(signed(Some(secret(1))), [PeerClaim::GoesFirst]);
}

#[test]
fn of_a_flood_no_more_is_looked_up_than_fits_into_a_round() {
    let advert = advert(last(3), Some(254), &[last(49), vip()], None);
    assert_eq!(told(active(None), &advert, 1), [], "the VIP is the second of the list");
    assert_eq!(told(active(None), &advert, 2), [PeerClaim::GoesFirst]);
}
