//! Requests that are refused, with the message of each.

use serde_json::json;

use super::{COMPAT, ask, require};
use crate::allocation::request::{RequestError, too_long};
use crate::allocation::settings::Settings;

/// Nine IPv4 addresses.
const NINE: &str =
    "192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4,192.0.2.5,192.0.2.6,192.0.2.7,192.0.2.8,192.0.2.9";

// shows: allocation 41, 51, 52, 59
#[test]
fn what_is_malformed_is_refused_with_place_value_reason_and_remedy_41_51_52_59() {
    let long_key = "k".repeat(254);
    let rows = [
        (
            json!({ "loadBalancerIP": "example.org" }),
            json!({}),
            "spec.loadBalancerIP: \"example.org\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.300" }),
            "windlass.dev/addresses: \"192.0.2.300\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1," }),
            "windlass.dev/addresses: \"\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.0/24" }),
            "windlass.dev/addresses: \"192.0.2.0/24\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1, 192.0.2.1" }),
            "windlass.dev/addresses: 192.0.2.1 is named twice: name it once",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "::ffff:192.0.2.1" }),
            "windlass.dev/addresses: ::ffff:192.0.2.1 is an IPv4 address mapped into IPv6: write 192.0.2.1",
        ),
        (
            json!({ "loadBalancerIP": "127.0.0.1" }),
            json!({}),
            "spec.loadBalancerIP: 127.0.0.1 is a loopback address, which no Service can have: name one of a pool",
        ),
        (
            json!({ "loadBalancerIP": "255.255.255.255" }),
            json!({}),
            "spec.loadBalancerIP: 255.255.255.255 is the broadcast address, which no Service can have: name one of a \
             pool",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "ff02::1" }),
            "windlass.dev/addresses: ff02::1 is a multicast address, which no Service can have: name one of a pool",
        ),
        (
            json!({}),
            json!({ "metallb.io/loadBalancerIPs": "::" }),
            "metallb.io/loadBalancerIPs: :: is the unspecified address, which no Service can have: name one of a pool",
        ),
        (
            json!({}),
            json!({ "kube-vip.io/loadbalancerIPs": "0.0.0.0" }),
            "kube-vip.io/loadbalancerIPs: 0.0.0.0 asks for an address by DHCP, which is not supported: name an address \
             of a pool, or remove the annotation to be given one",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": NINE }),
            "windlass.dev/addresses: 9 IPv4 addresses are named: name at most 8",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.2, 192.0.2.3" }),
            "spec.loadBalancerIP is 192.0.2.1, but windlass.dev/addresses is 192.0.2.2, 192.0.2.3: remove \
             one of them",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "metallb.universe.tf/loadBalancerIPs": "192.0.2.2" }),
            "spec.loadBalancerIP is 192.0.2.1, but metallb.universe.tf/loadBalancerIPs is 192.0.2.2: remove \
             one of them",
        ),
        (
            json!({}),
            json!({ "metallb.io/loadBalancerIPs": "192.0.2.1", "kube-vip.io/loadbalancerIPs": "192.0.2.2" }),
            "metallb.io/loadBalancerIPs is 192.0.2.1, but kube-vip.io/loadbalancerIPs is 192.0.2.2: remove \
             one of them",
        ),
        (
            json!({ "ipFamilies": ["IPv6"], "loadBalancerIP": "192.0.2.1" }),
            json!({}),
            "spec.loadBalancerIP: 192.0.2.1 is named, and the Service has no IPv4: name one of its own families, or add IPv4 to \
             spec.ipFamilies",
        ),
        (
            json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack" }),
            json!({ "windlass.dev/addresses": "192.0.2.1, 2001:db8::1" }),
            "windlass.dev/addresses: 2001:db8::1 is named, and the Service has no IPv6: name one of its own families, or add IPv6 to \
             spec.ipFamilies",
        ),
        (
            {
                let mut spec = require();
                spec["loadBalancerIP"] = json!("192.0.2.1");
                spec
            },
            json!({}),
            "spec.loadBalancerIP names no IPv6 address, and spec.ipFamilyPolicy is RequireDualStack: name one of each \
             family, or none",
        ),
        (
            require(),
            json!({ "windlass.dev/addresses": "2001:db8::1" }),
            "windlass.dev/addresses names no IPv4 address, and spec.ipFamilyPolicy is RequireDualStack: name one of \
             each family, or none",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "0" }),
            "windlass.dev/address-count: \"0\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "+3" }),
            "windlass.dev/address-count: \"+3\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "9" }),
            "windlass.dev/address-count: \"9\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1", "windlass.dev/address-count": "2" }),
            "windlass.dev/address-count says 2, and windlass.dev/addresses names 1 of IPv4: name 2, or remove the count",
        ),
        (
            json!({}),
            json!({ "windlass.dev/pool": "a, b" }),
            "windlass.dev/pool: \"a, b\" is not the name of a VirtualIPPool: name one pool",
        ),
        (
            json!({}),
            json!({ "metallb.io/address-pool": "Lan" }),
            "metallb.io/address-pool: \"Lan\" is not the name of a VirtualIPPool: name one pool",
        ),
        (
            json!({}),
            json!({ "windlass.dev/pool": too_long(240_000, 2560) }),
            "windlass.dev/pool: (too long: 240000 bytes; write at most 2560)",
        ),
        (
            json!({}),
            // By whom it may be: a condition takes no more than 32 KiB.
            json!({ "windlass.dev/pool": format!("(too long: {}", "x".repeat(100)) }),
            &*format!("windlass.dev/pool: (too long: {}…", "x".repeat(53)),
        ),
        (
            json!({}),
            json!({ "windlass.dev/sharing-key": long_key }),
            "windlass.dev/sharing-key: the key has 254 bytes: write at most 253",
        ),
        (
            json!({}),
            json!({ "metallb.io/allow-shared-ip": "my key" }),
            "metallb.io/allow-shared-ip: ' ' is in the key: write printable ASCII characters without spaces",
        ),
        (
            json!({}),
            json!({ "windlass.dev/share-with": "b" }),
            "windlass.dev/share-with is set without windlass.dev/sharing-key: set the key too, or remove it",
        ),
        (
            json!({}),
            json!({ "windlass.dev/sharing-key": "k", "windlass.dev/share-with": "b,*" }),
            "windlass.dev/share-with: \"*\" is not the name of a namespace: write names as in \"a, b\"",
        ),
        (
            json!({ "ipFamilies": ["IPv5"] }),
            json!({}),
            "spec.ipFamilies: \"IPv5\" is neither IPv4 nor IPv6: write one of them",
        ),
        (
            json!({ "ipFamilies": ["IPv4", "IPv4"] }),
            json!({}),
            "spec.ipFamilies: IPv4 is there twice: write it once",
        ),
        (
            json!({ "ipFamilyPolicy": "Dual" }),
            json!({}),
            "spec.ipFamilyPolicy: \"Dual\" is not known: write SingleStack, PreferDualStack or RequireDualStack",
        ),
        (
            json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "RequireDualStack" }),
            json!({}),
            "spec.ipFamilyPolicy is RequireDualStack, and the Service has IPv4 only: write PreferDualStack, or give \
             the cluster a Service range of the other family",
        ),
        (
            json!({ "ports": [ { "port": 80, "protocol": "ICMP" } ] }),
            json!({}),
            "spec.ports: protocol \"ICMP\" is not known: write TCP, UDP or SCTP",
        ),
        (
            json!({ "ports": [ { "port": 65536 } ] }),
            json!({}),
            "spec.ports: 65536 is not a port: write a number from 1 to 65535",
        ),
        (
            json!({ "ports": [ { "port": 0 } ] }),
            json!({}),
            "spec.ports: 0 is not a port: write a number from 1 to 65535",
        ),
    ];
    for (spec, annotations, message) in rows {
        let error = ask(&spec, &annotations, COMPAT).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn sixty_five_namespaces_are_too_many_and_a_long_value_is_shown_by_its_beginning() {
    let many: Vec<_> = (0..65).map(|number| format!("n{number}")).collect();
    let annotations = json!({ "windlass.dev/sharing-key": "k", "windlass.dev/share-with": many.join(",") });
    let error = ask(&json!({}), &annotations, Settings::default()).expect_err("too many");
    assert_eq!(error.to_string(), "windlass.dev/share-with: 65 namespaces are named: name at most 64");
    let annotations = json!({ "windlass.dev/pool": "ä".repeat(100_000) });
    let error = ask(&json!({}), &annotations, Settings::default()).expect_err("no name");
    assert_eq!(
        error,
        RequestError::PoolName { annotation: "windlass.dev/pool", value: format!("{}…", "ä".repeat(64)) }
    );
}
