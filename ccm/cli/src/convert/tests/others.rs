//! What becomes of the objects of kube-vip, PureLB and Cilium.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Conversion, Source};
use super::{contains_all, printed_both};

const KUBE_VIP: Source = Source::KubeVip { vip: false };
const KUBE_VIP_CONTROL_PLANE: Source = Source::KubeVip { vip: true };
const PURELB: Source = Source::Purelb;
const CILIUM: Source = Source::Cilium;

/// Names and specs of the pools and of the Announcements.
fn named(conversion: &Conversion) -> [Vec<(String, Value)>; 2] {
    printed_both(conversion).map(|objects| {
        let named = |object: &Value| {
            (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object["spec"].clone())
        };
        objects.iter().map(named).collect()
    })
}

/// What is printed of an input of which nothing is to be said.
fn quietly(source: &Source, text: &str) -> [Vec<(String, Value)>; 2] {
    let conversion = source.convert(text);
    assert_eq!((&conversion.warnings, &conversion.errors), (&vec![], &vec![]), "{text}");
    named(&conversion)
}

fn pair(name: &str, spec: Value) -> (String, Value) {
    (name.to_owned(), spec)
}

fn kubevip(data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kubevip, namespace: kube-system}}\ndata: {data}\n"
    )
}

fn of(kind: &str, spec: &str) -> String {
    let group = if kind.starts_with("Cilium") { "cilium.io" } else { "purelb.io" };
    format!("---\napiVersion: {group}/v2\nkind: {kind}\nmetadata: {{name: default}}\nspec: {spec}\n")
}

fn service(spec: &str, annotations: &str, address: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop, annotations: {annotations}}}\n\
         spec: {spec}\nstatus: {{loadBalancer: {{ingress: [{{ip: {address}}}]}}}}\n"
    )
}

#[test]
fn kube_vips_ranges_become_pools_of_their_namespaces() {
    let [pools, announcements] = quietly(
        &KUBE_VIP,
        &kubevip(
            "{cidr-global: '192.0.2.200/29,2001:db8::10/127', cidr-dev: 192.0.2.64/29, interface-dev: eth1, \
             search-order: desc, skip-end-ips-in-cidr: 'true'}",
        ),
    );
    let dev = json!({
        "addresses": ["192.0.2.65-192.0.2.70"], "namespaces": ["dev"], "whenFull": "Wait", "allocationOrder": "Highest",
    });
    let global = json!({
        "addresses": ["192.0.2.201-192.0.2.206", "2001:db8::10/127"], "allocationOrder": "Highest",
    });
    assert_eq!(pools, [pair("dev", dev), pair("global", global)]);
    assert_eq!(announcements, [pair("dev", json!({ "pools": ["dev"], "interfaces": ["eth1"] }))]);
    let [pools, announcements] =
        quietly(&KUBE_VIP, &kubevip("{range-global: '192.0.2.1-192.0.2.3,192.0.2.7-192.0.2.9'}"));
    let expected = json!({ "addresses": ["192.0.2.1-192.0.2.3", "192.0.2.7-192.0.2.9"] });
    assert_eq!((pools, announcements), (vec![pair("global", expected)], vec![]));
}

/// An input, how many pools are printed, and words of its warnings and of its errors.
type Row =
    (&'static Source, String, usize, &'static [&'static [&'static str]], &'static [&'static [&'static str]]);

#[test]
fn what_has_no_like_is_told_with_its_place_and_a_remedy() {
    let kube_vip_pool = kubevip("{cidr-global: 192.0.2.0/24}");
    let purelb_pool =
        of("ServiceGroup", "{local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.10-192.0.2.20}}}");
    let cilium_pool = of("CiliumLoadBalancerIPPool", "{blocks: [{cidr: 192.0.2.0/24}]}");
    let policy = |spec: &str| cilium_pool.clone() + &of("CiliumL2AnnouncementPolicy", spec);
    let rows: Vec<Row> = vec![
        (
            &KUBE_VIP,
            kubevip("{cidr-global: 0.0.0.0/32}"),
            0,
            &[],
            &[&["data.cidr-global", "DHCP", "give a range"]],
        ),
        (
            &KUBE_VIP,
            kubevip("{cidr-global: 192.0.2.0/28, range-dev: 198.51.100.1-198.51.100.9}"),
            1,
            &[&["data.range-dev", "cidr-global comes first"]],
            &[],
        ),
        (
            &KUBE_VIP,
            kubevip("{cidr-a: 192.0.2.0/28, cidr-b: '192.0.2.8/29,198.51.100.0/29'}"),
            2,
            &[&["data.cidr-b: \"192.0.2.8/29\"", "a pool above"]],
            &[],
        ),
        (
            &KUBE_VIP,
            kubevip("{cidr-global: 192.0.2.0/28, allow-share-global: 'true', search: up, interface-x: eth0}"),
            1,
            &[&["allow-share", "windlass.dev/sharing-key"], &["data.interface-x", "\"x\""], &["data.search"]],
            &[],
        ),
        (&KUBE_VIP, kubevip("{cidr-Dev: 192.0.2.0/28}"), 0, &[], &[&["\"Dev\"", "namespace"]]),
        (&KUBE_VIP, kubevip("{cidr-global: 'a,192.0.2.0/28'}"), 1, &[], &[&["\"a\"", "neither a CIDR"]]),
        (&KUBE_VIP, kubevip("{cidr-global: 7}"), 0, &[], &[&["kubevip", "data.cidr-global is 7"]]),
        (
            &KUBE_VIP,
            kube_vip_pool.clone()
                + &service(
                    "{type: LoadBalancer, loadBalancerIP: 198.51.100.7}",
                    "{kube-vip.io/loadbalancerIPs: 192.0.2.7}",
                    "192.0.2.7",
                ),
            1,
            &[&["Service shop/web", "--compat-annotations=true"], &["198.51.100.7", "is in no pool"]],
            &[],
        ),
        (
            &KUBE_VIP,
            kube_vip_pool
                + &service(
                    "{type: LoadBalancer, loadBalancerClass: kube-vip.io/kube-vip-class}",
                    "{}",
                    "0.0.0.0",
                ),
            1,
            &[&["kube-vip.io/kube-vip-class", "create the Service again"], &["0.0.0.0", "DHCP"]],
            &[],
        ),
        (
            &PURELB,
            of("ServiceGroup", "{remote: {v4pool: {}}}"),
            0,
            &[],
            &[&["spec.remote.v4pool.pool is missing"]],
        ),
        (
            &PURELB,
            of("ServiceGroup", "{remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/28}}}"),
            1,
            &[&["spec.remote", "BGP", "autoAssign: false", "Keep PureLB"]],
            &[],
        ),
        (&PURELB, of("ServiceGroup", "{netbox: {url: x}}"), 0, &[], &[&["spec.netbox"]]),
        (&PURELB, of("ServiceGroup", "{}"), 0, &[], &[&["spec.local is missing"]]),
        (
            &PURELB,
            of("ServiceGroup", "{local: {v4pool: {subnet: 192.0.2.0/28, pool: 192.0.2.10-192.0.2.20}}}"),
            0,
            &[],
            &[&["spec.local.v4pool.pool", "not within its subnet \"192.0.2.0/28\""]],
        ),
        (
            &PURELB,
            of(
                "ServiceGroup",
                "{namespaces: [a], local: {multiPool: true, v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.0/28, aggregation: /32}]}}",
            ),
            1,
            &[
                &["v4pools[0].aggregation \"/32\""],
                &["enforceNamespaces is false"],
                &["spec.local.multiPool"],
            ],
            &[],
        ),
        (
            &PURELB,
            purelb_pool.clone() + &of("LBNodeAgent", "{local: {localInterface: 'en\\bh0'}}"),
            1,
            &[],
            &[&["LBNodeAgent default", "localInterface", "regular expression"]],
        ),
        (
            &PURELB,
            purelb_pool
                + &service(
                    "{type: LoadBalancer}",
                    "{purelb.io/service-group: lan, purelb.io/addresses: 192.0.2.12}",
                    "192.0.2.12",
                ),
            1,
            &[
                &["purelb.io/addresses", "windlass.dev/addresses: \"192.0.2.12\""],
                &["windlass.dev/pool: \"lan\""],
            ],
            &[],
        ),
        (
            &CILIUM,
            policy(
                "{loadBalancerIPs: true, externalIPs: true, interfaces: ['^eth[0-9]+'], serviceSelector: {matchLabels: {a: b}}}",
            ),
            1,
            &[
                &["allowExternalIPs"],
                &["\"^eth[0-9]+\" became [\"eth*\"]"],
                &["every Service with an address"],
            ],
            &[],
        ),
        (
            &CILIUM,
            policy("{interfaces: [eth0]}"),
            1,
            &[&["no CiliumL2AnnouncementPolicy with loadBalancerIPs: true"], &["loadBalancerIPs is false"]],
            &[],
        ),
        (
            &CILIUM,
            policy("{loadBalancerIPs: true, interfaces: ['^eth\\b0$', '^eth1$']}"),
            1,
            &[],
            &[&["spec.interfaces[0] \"^eth\\\\b0$\"", "regular expression"]],
        ),
        (&CILIUM, cilium_pool.clone(), 1, &[&["no CiliumL2AnnouncementPolicy", "BGP"]], &[]),
        (
            &CILIUM,
            policy("{loadBalancerIPs: true}")
                + &of(
                    "CiliumLoadBalancerIPPool",
                    "{blocks: [{cidr: 192.0.2.0/24}], serviceSelector: {matchLabels: {io.kubernetes.service.name: web}}}",
                ),
            1,
            &[],
            &[&["io.kubernetes.service.name", "label the Services"]],
        ),
        (
            &CILIUM,
            of(
                "CiliumLoadBalancerIPPool",
                "{blocks: [{}, {stop: 192.0.2.9}, {cidr: 192.0.2.0/30, start: 192.0.2.1}]}",
            ),
            0,
            &[],
            &[&["blocks[0]", "blocks[1]", "blocks[2]", "neither"]],
        ),
        (
            &CILIUM,
            policy("{loadBalancerIPs: true}")
                + &service(
                    "{type: LoadBalancer, loadBalancerClass: io.cilium/l2-announcer}",
                    "{lbipam.cilium.io/ips: '192.0.2.7,10.0.0.1', lbipam.cilium.io/sharing-cross-namespace: '*'}",
                    "192.0.2.7",
                ),
            1,
            &[
                &["io.cilium/l2-announcer"],
                &["windlass.dev/addresses"],
                &["share-with"],
                &["10.0.0.1 is in no pool"],
            ],
            &[],
        ),
    ];
    for (source, text, pools, warnings, errors) in rows {
        let conversion = source.convert(&text);
        contains_all(&conversion.warnings, warnings);
        contains_all(&conversion.errors, errors);
        assert_eq!(named(&conversion)[0].len(), pools, "{text}");
    }
}

#[test]
fn purelbs_groups_become_pools_that_the_same_services_get() {
    let both = "{local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.10-192.0.2.20, aggregation: default}, \
                v6pool: {subnet: '2001:db8::/64', pool: '2001:db8::/120'}}}";
    let [pools, _] = quietly(&PURELB, &of("ServiceGroup", both));
    let addresses = json!({ "addresses": ["192.0.2.10-192.0.2.20", "2001:db8::/120"] });
    assert_eq!(pools, [pair("default", addresses)]);
    // Of v1: one pool in spec.local. Services have to name a group that is not called default.
    let v1 = of("ServiceGroup", "{local: {subnet: 192.0.2.0/24, pool: 192.0.2.0/28}}")
        .replace("purelb.io/v2", "purelb.io/v1")
        .replace("default", "lan");
    let [pools, _] = quietly(&PURELB, &v1);
    assert_eq!(pools, [pair("lan", json!({ "addresses": ["192.0.2.0/28"], "autoAssign": false }))]);
    let fenced = of(
        "ServiceGroup",
        "{namespaces: [a, b], enforceNamespaces: true, local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/28}}}",
    ) + &of("LBNodeAgent", "{local: {localInterface: ^bond0$}}");
    let [pools, announcements] = quietly(&PURELB, &fenced);
    let spec = json!({ "addresses": ["192.0.2.0/28"], "namespaces": ["a", "b"], "whenFull": "Wait" });
    assert_eq!(pools, [pair("default", spec)]);
    assert_eq!(announcements, [pair("default", json!({ "interfaces": ["bond0"] }))]);
}

#[test]
fn ciliums_pools_and_policies_become_pools_and_announcements() {
    let pool = of(
        "CiliumLoadBalancerIPPool",
        "{allowFirstLastIPs: 'No', disabled: true, serviceSelector: {matchLabels: {io.kubernetes.service.namespace: shop, a: b}}, \
         blocks: [{cidr: 192.0.2.0/29}, {start: 192.0.2.100, stop: 192.0.2.120}, {start: 192.0.2.130}, {cidr: 192.0.2.140/31}]}",
    );
    let policy = of(
        "CiliumL2AnnouncementPolicy",
        "{loadBalancerIPs: true, interfaces: [^eth0$], nodeSelector: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, \
         operator: DoesNotExist}]}}",
    );
    let [pools, announcements] = quietly(&CILIUM, &(pool + &policy));
    let spec = json!({
        "addresses": ["192.0.2.1-192.0.2.6", "192.0.2.100-192.0.2.120", "192.0.2.130/32", "192.0.2.140/31"],
        "disabled": true, "namespaces": ["shop"], "serviceSelectors": [{ "matchLabels": { "a": "b" } }],
    });
    assert_eq!(pools, [pair("default", spec)]);
    let nodes = json!([{ "matchExpressions": [{ "key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist" }] }]);
    assert_eq!(announcements, [pair("default", json!({ "interfaces": ["eth0"], "nodeSelectors": nodes }))]);
    let others = of(
        "CiliumLoadBalancerIPPool",
        "{blocks: [{cidr: 192.0.2.0/29}], serviceSelector: {matchExpressions: [{key: io.kubernetes.service.namespace, \
         operator: NotIn, values: [a]}]}}",
    ) + &of("CiliumL2AnnouncementPolicy", "{loadBalancerIPs: true}");
    let [pools, announcements] = quietly(&CILIUM, &others);
    let selectors = json!([{ "matchExpressions": [{ "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a"] }] }]);
    let spec = json!({ "addresses": ["192.0.2.0/29"], "namespaceSelectors": selectors });
    assert_eq!((pools, announcements), (vec![pair("default", spec)], vec![]));
}

/// The first and last address of a range as a pool has it.
fn ends(text: &str) -> (IpAddr, IpAddr) {
    if let Some((first, last)) = text.split_once('-') {
        return (first.parse().unwrap(), last.parse().unwrap());
    }
    let net: IpNet = text.parse().unwrap();
    (net.network(), net.broadcast())
}

/// Ranges as people write them, with the addresses that each lists.
fn ranges() -> impl Strategy<Value = Vec<String>> {
    let one = (1u8..4, 0u8..=250, 0u8..6, 24u8..=32, any::<bool>()).prop_map(
        |(third, last, more, bits, is_cidr)| {
            let net: IpNet = format!("10.0.{third}.{last}/{bits}").parse().unwrap();
            if is_cidr {
                net.trunc().to_string()
            } else {
                format!("10.0.{third}.{last}-10.0.{third}.{}", last.saturating_add(more))
            }
        },
    );
    prop::collection::vec(one, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 8.9 ms each

    #[test]
    fn no_pool_has_an_address_that_was_not_listed_nor_one_twice(listed in ranges(), namespaces in any::<bool>()) {
        let pairs: Vec<Value> = listed.iter().map(|range| json!({ "pool": range, "subnet": "10.0.0.0/8" })).collect();
        let blocks: Vec<Value> = listed.iter().map(|range| match range.split_once('-') {
            Some((start, stop)) => json!({ "start": start, "stop": stop }),
            None => json!({ "cidr": range }),
        }).collect();
        let key = if namespaces { "cidr-a" } else { "cidr-global" };
        let inputs = [
            (KUBE_VIP, json!({ "kind": "ConfigMap", "metadata": { "name": "kubevip" }, "data": {
                key: listed.join(","), "cidr-b": listed[0], "skip-end-ips-in-cidr": "true" } })),
            (PURELB, json!({ "apiVersion": "purelb.io/v2", "kind": "ServiceGroup", "metadata": { "name": "default" },
                "spec": { "local": { "v4pools": pairs } } })),
            (CILIUM, json!({ "apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": { "name": "default" },
                "spec": { "blocks": blocks, "allowFirstLastIPs": if namespaces { "No" } else { "Yes" } } })),
        ];
        let listed: Vec<(IpAddr, IpAddr)> = listed.iter().map(|text| ends(text)).collect();
        for (source, input) in inputs {
            let mut given: Vec<(IpAddr, IpAddr)> = Vec::new();
            for (_, spec) in &named(&source.convert(&input.to_string()))[0] {
                for range in spec["addresses"].as_array().unwrap() {
                    let (first, last) = ends(range.as_str().unwrap());
                    prop_assert!(listed.iter().any(|(from, to)| *from <= first && last <= *to), "{range} of {input}");
                    prop_assert!(given.iter().all(|(from, to)| last < *from || *to < first), "{range} twice: {input}");
                    given.push((first, last));
                }
            }
        }
    }

    #[test]
    fn no_mutilated_input_makes_one_panic_or_print_what_the_api_server_refuses(
        at in 0usize..900, cut in 0usize..40, piece in "[-\\[\\]{}:,#&*!|>'\"%@ \\n0-9a-z./]{0,12}"
    ) {
        let whole = kubevip("{cidr-global: '192.0.2.0/28,2001:db8::/120', range-a: 10.0.0.1-10.0.0.9, interface-global: eth0}")
            + &of("ServiceGroup", "{namespaces: [a], local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.10-192.0.2.20}}}")
            + &of("LBNodeAgent", "{nodeSelector: {matchLabels: {a: b}}, local: {localInterface: ^eth0$}}")
            + &of("CiliumLoadBalancerIPPool", "{blocks: [{cidr: 192.0.2.0/29}], serviceSelector: {matchLabels: {a: b}}}")
            + &of("CiliumL2AnnouncementPolicy", "{loadBalancerIPs: true, interfaces: [^eth0$]}")
            + &service("{type: LoadBalancer}", "{purelb.io/addresses: 192.0.2.7}", "192.0.2.7");
        let mut chars: Vec<char> = whole.chars().collect();
        let from = at.min(chars.len());
        let to = (from + cut).min(chars.len());
        chars.splice(from..to, piece.chars());
        let text: String = chars.into_iter().collect();
        KUBE_VIP_CONTROL_PLANE.convert(&text);
        for source in [KUBE_VIP, PURELB, CILIUM, Source::Keepalived { vip_port: Vec::new() }] {
            printed_both(&source.convert(&text));
        }
    }
}
