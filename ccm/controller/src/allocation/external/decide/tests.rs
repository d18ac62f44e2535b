use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::VirtualIPPool;
use windlass_ipam::{Port, Protocol};

use super::*;
use crate::allocation::pools::{UnusableAddresses, review};

fn service(external_ips: &[&str], extra: &Value) -> Service {
    let mut service = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s" },
        "spec": { "type": "ClusterIP", "externalIPs": external_ips },
    });
    if let Some(fields) = extra.as_object() {
        service["metadata"].as_object_mut().expect("metadata").extend(fields.clone());
    }
    serde_json::from_value(service).expect("a Service")
}

fn pools(fields: &Value) -> Vec<ReviewedPool> {
    let mut pool = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool", "metadata": { "name": "p" }, "spec": fields,
    });
    pool["spec"]["addresses"] = json!(["192.0.2.0/29", "2001:db8::/64"]);
    let pool: VirtualIPPool = serde_json::from_value(pool).expect("a pool");
    review(&[Arc::new(pool)], &UnusableAddresses::default(), |_| false)
}

fn open() -> Vec<ReviewedPool> {
    pools(&json!({ "allowExternalIPs": true }))
}

fn owner(namespace: &str, name: &str) -> ServiceRef {
    ServiceRef { namespace: namespace.into(), name: name.into(), uid: name.into() }
}

fn terms(namespace: &str, ports: &[u16]) -> Terms {
    let ports = ports.iter().map(|number| Port { protocol: Protocol::Tcp, number: *number }).collect();
    Terms { ports, ..Terms::alone(namespace) }
}

fn holder(namespace: &str, name: &str, ports: &[u16]) -> Holder<'static> {
    let (owner, terms) = (owner(namespace, name), terms(namespace, ports));
    Holder { owner: Box::leak(Box::new(owner)), terms: Box::leak(Box::new(terms)) }
}

fn requester() -> Requester {
    Requester { namespace: "ns".into(), ..Requester::default() }
}

fn user() -> ExternalIpUser {
    ExternalIpUser { owner: owner("ns", "s"), requester: requester(), terms: terms("ns", &[80]) }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

#[test]
fn external_ips_are_taken_each_once_and_in_order() {
    let service = service(&["192.0.2.3", "2001:db8::1", "192.0.2.3"], &json!({}));
    assert_eq!(external_ips(&service), [ip("192.0.2.3"), ip("2001:db8::1")]);
}

#[test]
fn of_a_list_of_any_length_the_first_64_entries_are_looked_at() {
    let all: Vec<String> = (0..100_000_u32).map(|n| std::net::Ipv4Addr::from_bits(n).to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let said = |count: usize| super::super::excess(&service(&all[..count], &json!({})));
    let looked_at = external_ips(&service(&all, &json!({})));
    assert_eq!((looked_at.len(), looked_at.last().copied()), (64, Some(ip("0.0.0.63"))));
    assert_eq!(said(64), None);
    let expected = "spec.externalIPs has more than 64 entries, and only the first 64 are looked at: spread them over several Services";
    assert_eq!(said(65).as_deref(), Some(expected));
    assert_eq!(external_ips(&service(&vec!["192.0.2.3"; 100_000], &json!({}))), [ip("192.0.2.3")]);
}

#[test]
fn what_becomes_of_an_external_ip() {
    let claim = ExternalIpDecision::Claim;
    let refused = |why: &str| ExternalIpDecision::Refused { pool: "p".into(), why: why.into() };
    let decide = |pools: &[ReviewedPool], holders: &[Holder<'_>]| {
        decide(&user(), ip("192.0.2.3"), pools, holders, || None)
    };
    assert_eq!(decide(&open(), &[]), claim);
    assert_eq!(
        decide(&[], &[]),
        ExternalIpDecision::InNoPool,
        "an address of no pool is none of our business"
    );
    assert_eq!(
        decide(&pools(&json!({})), &[]),
        refused("pool \"p\" does not allow external IPs: set spec.allowExternalIPs there")
    );
    assert_eq!(
        decide(&pools(&json!({ "allowExternalIPs": true, "namespaces": ["other"] })), &[]),
        refused("pool \"p\" is not for Services of this namespace (only other)")
    );
    // Together with others of its namespace, if the ports differ.
    assert_eq!(decide(&open(), &[holder("ns", "s", &[80])]), ExternalIpDecision::AlreadyHeld);
    assert_eq!(decide(&open(), &[holder("ns", "b", &[443])]), claim);
    assert_eq!(
        decide(&open(), &[holder("ns", "b", &[443]), holder("ns", "c", &[80])]),
        refused("Service ns/c has it and listens on port 80 too: use another port or address")
    );
    assert_eq!(
        decide(&open(), &[holder("other", "b", &[443])]),
        refused("Service other/b of another namespace has it: use another address")
    );
    // What it has it keeps as long as the pool lets it, and no longer.
    assert_eq!(
        decide(&open(), &[holder("ns", "b", &[80]), holder("ns", "s", &[80])]),
        ExternalIpDecision::AlreadyHeld
    );
    assert!(matches!(
        decide(&pools(&json!({})), &[holder("ns", "s", &[80])]),
        ExternalIpDecision::Refused { .. }
    ));
}

#[test]
fn an_address_that_is_kept_back_is_not_announced_as_an_external_ip() {
    let why = "another host has it";
    let verdict = decide(&user(), ip("192.0.2.3"), &open(), &[], || Some(why.to_owned()));
    assert_eq!(verdict, ExternalIpDecision::Refused { pool: "p".into(), why: why.into() });
    let reserved = pools(&json!({ "allowExternalIPs": true, "avoidReserved": "Subnet" }));
    let verdict = decide(&user(), ip("192.0.2.0"), &reserved, &[], || None);
    let why =
        "pool \"p\" reserves it (see spec.avoidReserved and the pool's condition Ready): use another address";
    assert_eq!(verdict, ExternalIpDecision::Refused { pool: "p".into(), why: why.into() });
}

#[test]
fn a_service_wants_an_external_ip_while_it_names_it_and_the_pool_lets_it() {
    let wants = |service: &Service, address: &str, pools: &[ReviewedPool]| {
        wants_external(service, &requester(), ip(address), pools)
    };
    let plain = service(&["192.0.2.3", "203.0.113.1"], &json!({}));
    assert!(wants(&plain, "192.0.2.3", &open()));
    assert!(!wants(&plain, "192.0.2.4", &open()), "it does not name it");
    assert!(!wants(&plain, "203.0.113.1", &open()), "no pool has it");
    assert!(!wants(&plain, "192.0.2.3", &pools(&json!({}))), "the pool does not let it");
    let going = service(&["192.0.2.3"], &json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    assert!(!wants(&going, "192.0.2.3", &open()), "it is being deleted");
}
