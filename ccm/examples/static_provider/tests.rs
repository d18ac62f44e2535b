use clap::CommandFactory as _;
use serde_json::{Value, json};

use super::*;

fn provider(addresses: &[&str]) -> Static {
    Static::new(addresses.iter().map(|address| address.parse().unwrap()).collect(), None)
}

fn service(name: &str, families: &[&str], shown: &[&str]) -> Service {
    let ingress: Vec<Value> = shown.iter().map(|ip| json!({ "ip": ip })).collect();
    let service = json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
        "spec": { "type": "LoadBalancer", "ipFamilies": families, "ports": [{ "port": 80 }, { "port": 53, "protocol": "UDP" }] },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    serde_json::from_value(service).unwrap()
}

fn given(provider: &Static, service: &Service) -> Result<Vec<String>, String> {
    let given = provider.give(service).map_err(|error| error.to_string())?;
    Ok(given.iter().map(ToString::to_string).collect())
}

#[test]
fn the_flags_are_consistent() {
    Args::command().debug_assert();
}

#[test]
fn each_service_gets_its_own_address_and_keeps_it() {
    let provider = provider(&["192.0.2.1", "192.0.2.2"]);
    let [web, dns, late] = ["web", "dns", "late"].map(|name| service(name, &["IPv4"], &[]));
    for _ in 0..2 {
        assert_eq!(given(&provider, &web).unwrap(), ["192.0.2.1"]);
        assert_eq!(given(&provider, &dns).unwrap(), ["192.0.2.2"]);
        let refused = given(&provider, &late).unwrap_err();
        assert!(refused.starts_with("no IPv4 address is free"), "{refused}");
    }
}

#[tokio::test]
async fn a_deleted_service_gives_its_address_back() {
    let provider = provider(&["192.0.2.1"]);
    let [web, late] = ["web", "late"].map(|name| service(name, &["IPv4"], &[]));
    given(&provider, &web).unwrap();
    assert!(provider.get("c", &web).await.unwrap().is_some());
    for _ in 0..2 {
        provider.ensure_deleted("c", &web).await.unwrap();
        assert_eq!(provider.get("c", &web).await.unwrap(), None);
    }
    assert_eq!(given(&provider, &late).unwrap(), ["192.0.2.1"]);
}

#[test]
fn a_service_of_two_families_gets_both_addresses_or_none() {
    let provider = provider(&["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
    let both = service("both", &["IPv6", "IPv4"], &[]);
    assert_eq!(given(&provider, &both).unwrap(), ["2001:db8::1", "192.0.2.1"]);
    let more = service("more", &["IPv4", "IPv6"], &[]);
    assert!(given(&provider, &more).unwrap_err().contains("no IPv6 address"));
    assert_eq!(
        given(&provider, &service("web", &["IPv4"], &[])).unwrap(),
        ["192.0.2.2"],
        "nothing is kept for it"
    );
    // An address of a family that it does not ask for any longer is free again.
    assert_eq!(given(&provider, &service("both", &["IPv6"], &[])).unwrap(), ["2001:db8::1"]);
    assert_eq!(given(&provider, &service("next", &["IPv4"], &[])).unwrap(), ["192.0.2.1"]);
}

#[test]
fn a_new_process_leaves_every_service_what_it_shows() {
    let provider = provider(&["192.0.2.1", "192.0.2.2"]);
    provider.adopt(&service("web", &["IPv4"], &["192.0.2.2", "198.51.100.1", "nonsense"]));
    assert_eq!(given(&provider, &service("new", &["IPv4"], &[])).unwrap(), ["192.0.2.1"]);
    assert_eq!(given(&provider, &service("web", &["IPv4"], &[])).unwrap(), ["192.0.2.2"]);
    assert!(given(&provider, &service("late", &["IPv4"], &["198.51.100.1"])).is_err());
}

#[test]
fn the_status_has_the_mode_and_every_port() {
    for mode in [None, Some("VIP"), Some("Proxy")] {
        let provider = Static::new(Vec::new(), mode.map(str::to_owned));
        let spec = service("web", &["IPv4"], &[]).spec.unwrap();
        let status = provider.status(&spec, &["192.0.2.1".parse().unwrap()]);
        let mut expected = json!({ "ingress": [{
            "ip": "192.0.2.1",
            "ports": [{ "port": 80, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }],
        }] });
        if let Some(mode) = mode {
            expected["ingress"][0]["ipMode"] = json!(mode);
        }
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
    }
}
