//! Services that ask for nonsense, and what they are told.

use serde_json::{Value, json};

/// One Service.
pub(super) struct Case {
    pub(super) metadata: Value,
    pub(super) spec: Value,
    /// Reason of the condition, whose status is `False`.
    pub(super) reason: &'static str,
    /// What its message says.
    pub(super) words: Vec<&'static str>,
}

/// What an annotation is refused with. Names without a group are ours.
type Row<'a> = (&'a [(&'a str, &'a str)], &'static str, &'a [&'static str]);

const INVALID: &str = "InvalidRequest";

/// Every case. `taken`: an address that another Service has.
pub(super) fn cases(taken: &str) -> Vec<Case> {
    let long = "x".repeat(2_000);
    let addresses = vec!["192.0.2.201"; 200].join(",");
    let too_long = "192.0.2.201,".repeat(20_000);
    let nine = (201..210).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(",");
    let key = "k".repeat(254);
    let namespaces = (0..65).map(|n| format!("ns-{n}")).collect::<Vec<_>>().join(",");
    let rows: &[Row<'_>] = &[
        (
            &[("addresses", "garbage")],
            INVALID,
            &["windlass.dev/addresses", "\"garbage\" is not an IP address"],
        ),
        (&[("addresses", "192.0.2.300")], INVALID, &["\"192.0.2.300\"", "write one, as 192.0.2.10"]),
        (&[("addresses", "192.0.2.201/32")], INVALID, &["\"192.0.2.201/32\" is not an IP address"]),
        (&[("addresses", "192.0.2.0201")], INVALID, &["\"192.0.2.0201\" is not an IP address"]),
        (&[("addresses", ",")], INVALID, &["\"\" is not an IP address"]),
        (&[("addresses", "192.0.2.201,")], INVALID, &["\"\" is not an IP address"]),
        (&[("addresses", "192.0.2.201;192.0.2.202")], INVALID, &["is not an IP address"]),
        (&[("addresses", "١٩٢.٠.٢.٢٠١")], INVALID, &["\"١٩٢.٠.٢.٢٠١\" is not an IP address"]),
        (&[("addresses", "a\n\u{7}\u{202e}b")], INVALID, &["is not an IP address"]),
        (
            &[("addresses", "::ffff:192.0.2.201")],
            INVALID,
            &["is an IPv4 address mapped into IPv6: write 192.0.2.201"],
        ),
        (&[("addresses", "fe80::1%eth0")], INVALID, &["\"fe80::1%eth0\" is not an IP address"]),
        (&[("addresses", "0.0.0.0")], INVALID, &["0.0.0.0 is the unspecified address", "name one of a pool"]),
        (&[("addresses", "127.0.0.1")], INVALID, &["127.0.0.1 is a loopback address"]),
        (&[("addresses", "224.0.0.18")], INVALID, &["224.0.0.18 is a multicast address"]),
        (&[("addresses", "255.255.255.255")], INVALID, &["is the broadcast address"]),
        (&[("addresses", "192.0.2.201,192.0.2.201")], INVALID, &["192.0.2.201 is named twice: name it once"]),
        (&[("addresses", &nine)], INVALID, &["9 IPv4 addresses are named: name at most 8"]),
        (&[("addresses", &addresses)], INVALID, &["192.0.2.201 is named twice"]),
        (&[("addresses", &long)], INVALID, &["xxxx…\" is not an IP address"]),
        (&[("addresses", &too_long)], INVALID, &["too long: 240000 bytes; write at most 2560"]),
        (&[("pool", &too_long)], INVALID, &["too long: 240000 bytes; write at most 2560"]),
        (&[("sharing-key", &too_long)], INVALID, &["windlass.dev/sharing-key: (too long: 240000 bytes"]),
        (&[("addresses", "2001:db8::1")], INVALID, &["the Service has no IPv6", "spec.ipFamilies"]),
        (&[("addresses", "203.0.113.77")], INVALID, &["203.0.113.77 is in no pool", "default"]),
        (
            &[("addresses", taken)],
            "AddressInUse",
            &["is held by Service default/web", "ask for another address"],
        ),
        (&[("address-count", "0")], INVALID, &["\"0\" is not a number from 1 to 8"]),
        (
            &[("address-count", "-1")],
            INVALID,
            &["windlass.dev/address-count", "\"-1\" is not a number from 1 to 8"],
        ),
        (&[("address-count", "9")], INVALID, &["\"9\" is not a number from 1 to 8"]),
        (&[("address-count", "257")], INVALID, &["\"257\" is not a number from 1 to 8"]),
        (&[("address-count", "99999999999999999999999")], INVALID, &["is not a number from 1 to 8"]),
        (&[("address-count", "three")], INVALID, &["\"three\" is not a number from 1 to 8"]),
        (&[("address-count", "1.5")], INVALID, &["\"1.5\" is not a number from 1 to 8"]),
        (&[("address-count", "२")], INVALID, &["\"२\" is not a number from 1 to 8"]),
        (
            &[("address-count", "2"), ("addresses", "192.0.2.201")],
            INVALID,
            &["windlass.dev/address-count says 2, and windlass.dev/addresses names 1 of IPv4"],
        ),
        (&[("pool", "no-such")], "NoSuchPool", &["pool \"no-such\" does not exist", "default"]),
        (
            &[("pool", "Bad_Name")],
            INVALID,
            &["windlass.dev/pool: \"Bad_Name\" is not the name of a VirtualIPPool"],
        ),
        (
            &[("pool", "default,default")],
            INVALID,
            &["\"default,default\" is not the name of a VirtualIPPool: name one pool"],
        ),
        (&[("pool", "größe")], INVALID, &["\"größe\" is not the name of a VirtualIPPool"]),
        (&[("pool", "../default")], INVALID, &["\"../default\" is not the name of a VirtualIPPool"]),
        (&[("pool", &long)], INVALID, &["xxxx…\" is not the name of a VirtualIPPool"]),
        (&[("pool", "default"), ("addresses", "203.0.113.77")], INVALID, &["203.0.113.77", "\"default\""]),
        (
            &[("sharing-key", &key)],
            INVALID,
            &["windlass.dev/sharing-key: the key has 254 bytes: write at most 253"],
        ),
        (&[("sharing-key", "a b")], INVALID, &["' ' is in the key: write printable ASCII"]),
        (&[("sharing-key", "ключ")], INVALID, &["'к' is in the key"]),
        (
            &[("share-with", "apps")],
            INVALID,
            &["windlass.dev/share-with is set without windlass.dev/sharing-key"],
        ),
        (
            &[("sharing-key", "k"), ("share-with", "Bad_")],
            INVALID,
            &["\"Bad_\" is not the name of a namespace"],
        ),
        (&[("sharing-key", "k"), ("share-with", "*")], INVALID, &["\"*\" is not the name of a namespace"]),
        (&[("sharing-key", "k"), ("share-with", "a,,b")], INVALID, &["\"\" is not the name of a namespace"]),
        (
            &[("sharing-key", "k"), ("share-with", &namespaces)],
            INVALID,
            &["65 namespaces are named: name at most 64"],
        ),
        (
            &[("sharing-key", "k"), ("addresses", taken)],
            "SharingRefused",
            &["cannot be shared with Service default/web"],
        ),
        (
            &[("metallb.universe.tf/loadBalancerIPs", "garbage")],
            INVALID,
            &["metallb.universe.tf/loadBalancerIPs: \"garbage\" is not an IP address"],
        ),
        (&[("metallb.io/address-pool", "nope")], "NoSuchPool", &["pool \"nope\" does not exist"]),
        (
            &[("metallb.io/address-pool", "a/b")],
            INVALID,
            &["metallb.io/address-pool: \"a/b\" is not the name"],
        ),
        (
            &[("metallb.io/allow-shared-ip", "a b")],
            INVALID,
            &["metallb.io/allow-shared-ip: ' ' is in the key"],
        ),
        (&[("kube-vip.io/loadbalancerIPs", "0.0.0.0")], INVALID, &["asks for an address by DHCP"]),
        (
            &[("metallb.io/loadBalancerIPs", "192.0.2.201"), ("kube-vip.io/loadbalancerIPs", "192.0.2.202")],
            INVALID,
            &["metallb.io/loadBalancerIPs is 192.0.2.201, but kube-vip.io/loadbalancerIPs is 192.0.2.202"],
        ),
    ];
    let annotated = rows.iter().map(|(annotations, reason, words)| {
        let full =
            |name: &str| if name.contains('/') { name.to_owned() } else { format!("windlass.dev/{name}") };
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(name, value)| (full(name), Value::from(*value))).collect();
        Case {
            metadata: json!({ "annotations": annotations }),
            spec: json!({}),
            reason,
            words: words.to_vec(),
        }
    });
    let fields: &[(Value, &'static [&'static str])] = &[
        (json!({"loadBalancerIP": "garbage"}), &["spec.loadBalancerIP: \"garbage\" is not an IP address"]),
        (
            json!({"loadBalancerIP": "192.0.2.201,192.0.2.202"}),
            &["spec.loadBalancerIP", "is not an IP address"],
        ),
        (json!({"loadBalancerIP": "203.0.113.200"}), &["203.0.113.200 is in no pool"]),
        (json!({"loadBalancerIP": "2001:db8::201"}), &["spec.loadBalancerIP", "the Service has no IPv6"]),
        (json!({"loadBalancerIP": "239.1.1.1"}), &["239.1.1.1 is a multicast address"]),
    ];
    let fields = fields.iter().map(|(spec, words)| Case {
        metadata: json!({}),
        spec: spec.clone(),
        reason: INVALID,
        words: words.to_vec(),
    });
    annotated.chain(fields).collect()
}
