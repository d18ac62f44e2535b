//! MetalLB's objects as they are written, and what becomes of them.

mod announcements;
mod files;
mod known_fields;
mod others;
mod schema;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::{Announcement, VirtualIPPool};

use super::{Conversion, Source};

/// Converts MetalLB's objects.
fn convert(text: &str) -> Conversion {
    Source::Metallb.convert(text)
}

const POOL: &str = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: first, namespace: metallb-system}\n";

/// A pool with these lines in its spec.
fn pool(spec: &str) -> String {
    format!("---\n{POOL}spec:\n{spec}\n")
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: metallb.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, namespace: metallb-system}}\n\
         spec: {spec}\n"
    )
}

/// The VirtualIPPools and the Announcements that were printed; each is what the API server takes.
pub(super) fn printed_both(conversion: &Conversion) -> [Vec<Value>; 2] {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&conversion.yaml).expect("YAML");
    let (pools, announcements): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["kind"] == "VirtualIPPool");
    assert_eq!(pools.len(), conversion.pools);
    for pool in &pools {
        serde_json::from_value::<VirtualIPPool>(pool.clone()).expect("a VirtualIPPool");
        schema::check("virtualippools.windlass.dev", pool);
    }
    let mut names = BTreeSet::new();
    for announcement in &announcements {
        serde_json::from_value::<Announcement>(announcement.clone()).expect("an Announcement");
        schema::check("announcements.windlass.dev", announcement);
        assert!(names.insert(announcement["metadata"]["name"].to_string()), "{names:?}: twice");
    }
    [pools, announcements]
}

/// The VirtualIPPools that were printed.
fn printed(conversion: &Conversion) -> Vec<Value> {
    let [pools, _] = printed_both(conversion);
    pools
}

/// The specs of the pools that were printed, with nothing to be said of it.
fn quietly(text: &str) -> Vec<Value> {
    let conversion = convert(text);
    assert_eq!((&conversion.warnings, &conversion.errors), (&vec![], &vec![]), "{text}");
    printed(&conversion).into_iter().map(|pool| pool["spec"].clone()).collect()
}

pub(super) fn contains_all(said: &[String], words: &[&[&str]]) {
    assert_eq!(said.len(), words.len(), "{said:#?}");
    for (said, words) in said.iter().zip(words) {
        for word in *words {
            assert!(said.contains(word), "{word:?} is not in {said:?}");
        }
    }
}

#[test]
fn a_pool_is_printed_with_what_differs_from_the_defaults() {
    let text = pool(
        "  addresses:\n  - 192.168.10.0/24\n  - 192.168.9.1-192.168.9.5\n  - fc00:f853:0ccd:e799::/124\n  autoAssign: false",
    );
    let expected = "---\napiVersion: windlass.dev/v1alpha1\nkind: VirtualIPPool\nmetadata:\n  name: first\nspec:\n  addresses:\n";
    let conversion = convert(&text);
    assert!(conversion.yaml.starts_with(expected), "{}", conversion.yaml);
    let spec = json!({
        "addresses": ["192.168.10.0/24", "192.168.9.1-192.168.9.5", "fc00:f853:ccd:e799::/124"], "autoAssign": false,
    });
    assert_eq!(quietly(&text), [spec]);
    assert_eq!(quietly(&pool("  addresses: [192.0.2.7/32]")), [json!({ "addresses": ["192.0.2.7/32"] })]);
}

#[test]
fn addresses_that_metallb_avoids_are_avoided_and_no_others() {
    let spec = json!({
        "addresses": ["192.0.2.0/24", "198.51.100.16-198.51.100.31", "2001:db8::-2001:db8::f"],
        "avoidReserved": "SubnetAndClassC",
    });
    let text = pool("  addresses: [192.0.2.0/24, 198.51.100.16/28, '2001:db8::/124']\n  avoidBuggyIPs: true");
    assert_eq!(quietly(&text), [spec]);
}

#[test]
fn who_may_use_a_pool_is_kept() {
    let text = pool(
        "  addresses: [192.0.2.0/24]\n  serviceAllocation:\n    priority: 50\n    namespaces: [a, b]\n    \
         namespaceSelectors: [{matchLabels: {team: red}}]\n    \
         serviceSelectors: [{matchExpressions: [{key: tier, operator: In, values: [web]}]}]",
    );
    let spec = json!({
        "addresses": ["192.0.2.0/24"], "priority": 50, "namespaces": ["a", "b"],
        "namespaceSelectors": [{ "matchLabels": { "team": "red" } }],
        "serviceSelectors": [{ "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["web"] }] }],
    });
    assert_eq!(quietly(&text), [spec]);
}

#[test]
fn the_order_of_pools_is_kept_none_being_last() {
    let priorities = |given: &[i64]| -> Vec<Value> {
        let pools: Vec<String> = given
            .iter()
            .enumerate()
            .map(|(index, priority)| {
                object(
                    "IPAddressPool",
                    &format!("p{index}"),
                    &format!(
                        "{{addresses: [10.0.{index}.0/24], serviceAllocation: {{priority: {priority}}}}}"
                    ),
                )
            })
            .chain([object("IPAddressPool", "open", "{addresses: [10.1.0.0/24]}")])
            .collect();
        quietly(&pools.concat()).iter().map(|spec| spec["priority"].clone()).collect()
    };
    assert_eq!(priorities(&[10, 0, 20]), [json!(10), Value::Null, json!(20), Value::Null], "100 by default");
    assert_eq!(priorities(&[10, 0, 200]), [json!(10), json!(1_000_000), json!(200), json!(1_000_000)]);
}

#[test]
fn a_list_of_kubectl_and_a_bad_document_stop_nothing() {
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, \
         metadata: {{name: a}}, spec: {{addresses: [192.0.2.0/24]}}}}\n--- # comment\n: : [\n---\n# nothing\n{}",
        pool("  addresses: [198.51.100.0/24]")
    );
    let conversion = convert(&list);
    let names: Vec<Value> =
        printed(&conversion).iter().map(|pool| pool["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a", "first"]);
    contains_all(&conversion.errors, &[&["begins in line 5", "not YAML", "line 6 column 1"]]);
    let json = r#"{"kind":"List","items":[{"apiVersion":"metallb.io/v1beta1","kind":"IPAddressPool",
        "metadata":{"name":"j"},"spec":{"addresses":["192.0.2.0/24"]}}]}"#;
    assert_eq!(quietly(json).len(), 1);
}

#[test]
fn nonsense_of_any_size_and_depth_is_told_with_its_line_and_a_remedy() {
    let deep = format!("# deep\n{}", "[".repeat(100_000));
    contains_all(
        &convert(&deep).errors,
        &[&["begins in line 1 is too large", "line 2: ", "nested", "fewer"]],
    );
    // Each is told of by itself, without reading what stands before it again.
    let documents = convert(&"---\n{\n".repeat(20_000));
    assert_eq!(documents.errors.len(), 20_000);
    assert!(
        documents.errors[19_999].contains("begins in line 39999 is not YAML"),
        "{}",
        documents.errors[19_999]
    );
    contains_all(&convert("\0\0").errors, &[&["line 1", "unexpected character"]]);
}

#[test]
fn the_config_map_of_old_versions_is_read() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: metallb-system, name: config}\ndata:\n  config: |\n    \
        address-pools:\n    - name: My_Pool\n      protocol: layer2\n      addresses: [192.0.2.0/28]\n      auto-assign: false\n    \
        - name: routed\n      protocol: bgp\n      addresses: ['198.51.100.0/28']\n      avoid-buggy-ips: true\n    \
        - name: broken\n      addresses: 7\n    peers:\n    - peer-address: 10.0.0.1\n";
    let conversion = convert(text);
    let pools = printed(&conversion);
    assert_eq!(pools[0]["metadata"]["name"], "my-pool");
    assert_eq!(pools[0]["spec"], json!({ "addresses": ["192.0.2.0/28"], "autoAssign": false }));
    assert_eq!(pools[1]["spec"]["avoidReserved"], "SubnetAndClassC");
    assert_eq!(pools[1]["spec"]["autoAssign"], false);
    contains_all(
        &conversion.warnings,
        &[
            &["ConfigMap metallb-system/config: data.config", "peers", "BGP"],
            &["address-pools[0]", "\"my-pool\"", "\"My_Pool\""],
            &["address-pools[1]", "only BGP announces it", "autoAssign: false"],
        ],
    );
    contains_all(
        &conversion.errors,
        &[&["address-pools[2]", "address-pools[2].addresses is 7 instead of a list"]],
    );
}

#[test]
fn what_has_no_equivalent_is_said_with_object_field_and_remedy() {
    let one = pool("  addresses: [192.0.2.0/24]");
    let l2 = |spec: &str| one.clone() + &object("L2Advertisement", "l2", spec);
    let rows: [(String, &[&str]); 7] = [
        (
            l2("{interfaces: [eth0, eth1]}"),
            &["L2Advertisement metallb-system/l2", "spec.interfaces", "one interface of each node"],
        ),
        (
            l2("{interfaces: [an-interface-name-too-long, eth0]}"),
            &["l2: spec.interfaces", "\"an-interface-name-too-long\"", "left out"],
        ),
        (
            l2("{serviceSelectors: [{matchLabels: {a: b}}]}"),
            &["first: ", "spec.serviceSelectors", "Give the VirtualIPPool"],
        ),
        (l2("{ipAddressPools: [other]}"), &["first: no advertisement", "spec.disabled"]),
        (one.clone() + &object("BGPPeer", "p", "{myASN: 1}"), &["BGPPeer metallb-system/p", "Keep MetalLB"]),
        (
            pool("  addresses: [192.0.2.0/24]\n  serviceAllocation: {priority: -1}"),
            &["priority is -1", "became 0"],
        ),
        (pool("  addresses: [192.0.2.0/24]\n  serviceAllocation: {priority: 5000000}"), &["became 999999"]),
    ];
    for (text, words) in rows {
        let conversion = convert(&text);
        contains_all(&conversion.warnings, &[words]);
        assert_eq!(conversion.errors, [""; 0], "{text}");
        assert_eq!(printed(&conversion).len(), 1);
    }
}

#[test]
fn that_by_which_nothing_is_lost_is_a_note() {
    let secrets = "---\nkind: Secret\nmetadata: {name: s}\n".repeat(9);
    let rows: [(String, &[&str]); 3] = [
        (
            pool("  addresses: [192.0.2.0/24]") + &secrets,
            &["Secret s, Secret s, Secret s, Secret s and 5 more: ", "left out"],
        ),
        (pool("  addresses: [192.0.2.9/24]"), &["spec.addresses[0]", "192.0.2.9/24", "all of 192.0.2.0/24"]),
        (pool("  addresses: [192.0.2.0/24, 192.0.2.7/32]"), &["spec.addresses[1]", "overlaps"]),
    ];
    for (text, words) in rows {
        quietly(&text);
        contains_all(&convert(&text).notes, &[words]);
    }
}

#[test]
fn a_pool_that_only_bgp_announces_is_given_to_none_that_does_not_name_it() {
    let pools = pool("  addresses: [192.0.2.0/24]")
        + &object("IPAddressPool", "both", "{addresses: [192.0.3.0/24]}")
        + &object("AddressPool", "old", "{addresses: [192.0.4.0/24], protocol: bgp}")
        + &object("AddressPool", "lan", "{addresses: [192.0.5.0/24], protocol: layer2}")
        + &object("BGPAdvertisement", "b", "{ipAddressPools: [first, both], aggregationLength: 26}")
        + &object("L2Advertisement", "l", "{ipAddressPools: [both]}");
    let conversion = convert(&pools);
    let given: Vec<bool> = printed(&conversion)
        .iter()
        .map(|pool| pool["spec"]["autoAssign"].as_bool().unwrap_or(true))
        .collect();
    assert_eq!(given, [false, true, false, true]);
    contains_all(
        &conversion.warnings,
        &[
            &["BGPAdvertisement metallb-system/b", "spec.aggregationLength", "does not speak BGP"],
            &[
                "IPAddressPool metallb-system/first, AddressPool metallb-system/old: only BGP",
                "autoAssign: false",
            ],
            &["both: BGP announces it as well"],
        ],
    );
}

#[test]
fn adjoining_addresses_are_one_range_where_a_pool_would_have_too_many() {
    let single: Vec<String> = (1..=100).map(|n| format!("192.0.2.{n}")).collect();
    let text = pool(&format!("  addresses: [{}]", single.join(", ")));
    assert_eq!(quietly(&text), [json!({ "addresses": ["192.0.2.1-192.0.2.100"] })]);
}

#[test]
fn what_cannot_be_converted_is_an_error_and_never_opens_a_pool_to_others() {
    let with = |rest: &str| pool(&format!("  addresses: [192.0.2.0/24]\n{rest}"));
    let many = |count: usize| {
        let ranges: Vec<String> = (0..count).map(|n| format!("10.0.{n}.0/24")).collect();
        pool(&format!("  addresses: [{}]", ranges.join(", ")))
    };
    let rows: [(String, usize, &[&[&str]]); 15] = [
        (pool("  addresses: [192.0.2.0/24, pool]"), 1, &[&["first: spec.addresses[1]", "\"pool\""]]),
        (pool("  addresses: [0.0.0.0/0]"), 0, &[&["spec.addresses[0]"]]),
        (pool("  addresses: ['${RANGE}']"), 0, &[&["spec.addresses[0]", "\"${RANGE}\" is a template"]]),
        (pool("  addresses: []"), 0, &[&["0 usable ranges", "add one"]]),
        (pool("  addresses: 192.0.2.0/24"), 0, &[&["spec.addresses is \"192.0.2.0/24\" instead of a list"]]),
        (pool("  addresses: [{}]"), 0, &[&["spec.addresses[0] is an object instead of a text"]]),
        (many(65), 0, &[&["65 usable ranges", "split the pool"]]),
        (with("  autoAssign: sometimes"), 0, &[&["spec.autoAssign is \"sometimes\""]]),
        (
            with("  serviceAllocation: {priority: high}"),
            0,
            &[&["spec.serviceAllocation.priority is \"high\""]],
        ),
        (
            with("  serviceAllocation: {namespaces: [Not A Namespace]}"),
            0,
            &[&["namespaces has \"Not A Namespace\""]],
        ),
        (
            with("  serviceAllocation: {namespaces: all}"),
            0,
            &[&["spec.serviceAllocation.namespaces is \"all\""]],
        ),
        (with("  serviceAllocation: {serviceSelectors: [7]}"), 0, &[&["serviceSelectors[0] is 7"]]),
        (
            with("  serviceAllocation: {serviceSelectors: [{matchExpressions: [{key: a, operator: Like}]}]}"),
            0,
            &[&["serviceSelectors[0]", "\"Like\""]],
        ),
        (with("") + &with(""), 1, &[&["first", "another pool is called \"first\""]]),
        (object("IPAddressPool", "''", "{addresses: [192.0.2.0/24]}"), 0, &[&["metadata.name is missing"]]),
    ];
    for (text, left, words) in rows {
        let conversion = convert(&text);
        contains_all(&conversion.errors, words);
        assert_eq!(printed(&conversion).len(), left, "{text}");
    }
    assert_eq!(printed(&convert(&many(64))).len(), 1);
}

#[test]
fn what_is_no_pool_gives_none() {
    for text in
        ["", "---\n---\n", "# only a comment", "7", "hello", "[]", "kind: List", "kind: List\nitems: 7"]
    {
        let conversion = convert(text);
        assert_eq!((conversion.pools, conversion.yaml.as_str()), (0, ""), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(convert(&deep).errors.len(), 1);
    assert_eq!(convert(&("- ".repeat(50_000) + "a")).pools, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 1.3 ms each

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        convert(&text);
    }

    #[test]
    fn no_mutilated_input_makes_it_panic_or_print_what_the_api_server_refuses(
        at in 0usize..600, cut in 0usize..40, piece in "[-\\[\\]{}:,#&*!|>'\"%@ \\n0-9a-z./]{0,12}"
    ) {
        let whole = pool(
            "  addresses: [192.0.2.0/24, '2001:db8::/64']\n  serviceAllocation:\n    priority: 50\n    namespaces: [a]",
        ) + &object("L2Advertisement", "l2", "{ipAddressPools: [first], interfaces: [eth0], nodeSelectors: [{matchLabels: {a: b}}]}");
        let mut chars: Vec<char> = whole.chars().collect();
        let from = at.min(chars.len());
        let to = (from + cut).min(chars.len());
        chars.splice(from..to, piece.chars());
        printed(&convert(&chars.into_iter().collect::<String>()));
    }

    #[test]
    fn a_name_stays_what_it_is_or_becomes_one_that_kubernetes_takes(name in "\\PC{1,40}") {
        let text = json!({ "address-pools": [{ "name": name, "addresses": ["192.0.2.0/24"] }] }).to_string();
        printed(&convert(&text));
    }
}
