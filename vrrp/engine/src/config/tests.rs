use super::*;

fn router(source: &str) -> RouterConfig {
    RouterConfig::new("eth0", Vrid::MIN, source.parse().unwrap())
}

#[test]
fn what_cannot_run_is_refused_with_the_router_the_value_and_the_remedy() {
    let v4 = router("192.0.2.1");
    assert_eq!(v4.check(), Ok(()));
    assert_eq!(router("fe80::1").check(), Ok(()));
    let group = |group: &str| Transport::Multicast { group: Some(group.parse().unwrap()) };
    let unicast = Transport::Unicast { ttl: 255, accept_ttl: 255..=255 };
    for (config, message) in [
        (
            RouterConfig { versions: Versions::V2, ..router("fe80::1") },
            "VRID 1 for IPv6 on eth0: VRRPv2 carries IPv4 only: use version 3 for an IPv6 virtual router",
        ),
        (
            RouterConfig { addresses: ["2001:db8::1".parse().unwrap()].into(), ..v4.clone() },
            "VRID 1 for IPv4 on eth0: 2001:db8::1 is of another family than its source 192.0.2.1: run a virtual router \
             for each family",
        ),
        (
            RouterConfig {
                peers: ["192.0.2.2", "192.0.2.1"].map(|peer| peer.parse().unwrap()).into(),
                ..v4.clone()
            },
            "VRID 1 for IPv4 on eth0: its peers contain 192.0.2.1, its own source: name only the other candidates' addresses",
        ),
        (
            router("2001:db8::1"),
            "VRID 1 for IPv6 on eth0: its source 2001:db8::1 is not link-local, as adverts to an IPv6 group must be: use \
             the interface's fe80:: address",
        ),
        (
            RouterConfig { transport: group("192.0.2.9"), ..v4.clone() },
            "VRID 1 for IPv4 on eth0: 192.0.2.9 is no multicast group of its family: use one of 224.0.0.0/24 or ff02::/16",
        ),
        (
            RouterConfig { transport: unicast, ..v4.clone() },
            "VRID 1 for IPv4 on eth0: unicast without peers: name the other candidates' addresses",
        ),
        (
            RouterConfig { address_conflict: AddressConflictPolicy::Yield, ..v4.clone() },
            "VRID 1 for IPv4 on eth0: to yield an address needs a probe: set one, or defend it",
        ),
        (
            RouterConfig { accept: true, ..v4 },
            "VRID 1 for IPv4 on eth0: accept needs the VIPs on an interface: hold them by address or vmac",
        ),
    ] {
        assert_eq!(config.check().expect_err(message).to_string(), message);
    }
}

#[test]
fn a_secret_is_never_shown() {
    use windlass_vrrp::auth::{AntiReplay, AuthMode, Key, KeyId, Keyring};

    let secret = "correct horse battery staple, and so on";
    let keyring = Keyring::new(KeyId::new(1).unwrap(), secret.parse::<Key>().unwrap());
    let keyring = keyring.with(KeyId::new(2).unwrap(), Key::new(secret.as_bytes()).unwrap()).unwrap();
    let authentication =
        Authentication { keyring, mode: AuthMode::Enforce, anti_replay: AntiReplay::Monotonic };
    let config = RouterConfig {
        authentication: Some(authentication),
        ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), "192.0.2.1".parse().unwrap())
    };
    let shown = format!("{config:?} {config:#?}");
    let bytes = format!("{:?}", secret.as_bytes());
    let hex = "636f727265637420686f727365";
    for form in [secret, &bytes, hex] {
        assert!(!shown.contains(form), "{shown}");
    }
}

#[test]
fn routers_that_share_a_vip_on_an_interface_are_told_from_those_that_do_not() {
    let with = |vrid: u8, interface: &str, vips: &[u8]| RouterConfig {
        addresses: vips.iter().map(|n| IpAddr::from([192, 0, 2, *n])).collect(),
        ..RouterConfig::new(interface, Vrid::new(vrid).unwrap(), [192, 0, 2, 1].into())
    };
    for (routers, refused) in [
        (vec![with(1, "eth0", &[50]), with(2, "eth0", &[51])], vec![]),
        (vec![with(1, "eth0", &[50]), with(2, "eth1", &[50])], vec![]),
        (vec![with(2, "eth0", &[50]), with(1, "eth0", &[50, 51])], vec![2]),
        // One that is refused takes nothing from others.
        (vec![with(1, "eth0", &[50]), with(2, "eth0", &[50, 51]), with(3, "eth0", &[51])], vec![2]),
        // Of several with one key the last counts.
        (vec![with(1, "eth0", &[50]), with(1, "eth0", &[]), with(2, "eth0", &[50])], vec![]),
    ] {
        let found: Vec<u8> = overlaps(&routers).into_keys().map(|key| key.vrid.get()).collect();
        assert_eq!(found, refused, "{routers:#?}");
    }
}

#[test]
fn only_what_speaks_to_a_group_falls_back_to_unicast() {
    let unicast = Transport::Unicast { ttl: 255, accept_ttl: 255..=255 };
    for (transport, expected) in [(Transport::default(), true), (unicast, false)] {
        let config = RouterConfig {
            transport,
            unicast_fallback: true,
            ..RouterConfig::new("eth0", Vrid::new(7).unwrap(), [192, 0, 2, 1].into())
        };
        assert_eq!(config.state_machine_config().unicast_fallback, expected);
    }
}
