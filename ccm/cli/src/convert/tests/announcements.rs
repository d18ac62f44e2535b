//! How MetalLB's pools were announced, and the Announcements that come of it.

use serde_json::{Value, json};

use super::super::Conversion;
use super::{contains_all, convert, object, printed_both};

/// The pools `a` (label `lan: a`) and `b`, and these L2Advertisements by name and spec.
fn converted(advertisements: &[(&str, &str)]) -> Conversion {
    let pool = |name: &str, labels: &str, third: u8| {
        format!(
            "---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: {name}, labels: {labels}}}\n\
             spec: {{addresses: [10.0.{third}.0/24]}}\n"
        )
    };
    let pools = pool("a", "{lan: a}", 1) + &pool("b", "{}", 2);
    let advertisements: String =
        advertisements.iter().map(|(name, spec)| object("L2Advertisement", name, spec)).collect();
    convert(&(pools + &advertisements))
}

/// Names and specs of the Announcements that were printed.
fn named(conversion: &Conversion) -> Vec<(String, Value)> {
    let [pools, announcements] = printed_both(conversion);
    assert_eq!(pools.len(), 2);
    let name = |one: &Value| one["metadata"]["name"].as_str().expect("a name").to_owned();
    announcements.iter().map(|one| (name(one), one["spec"].clone())).collect()
}

/// The same, with nothing to be said of it.
fn quietly(advertisements: &[(&str, &str)]) -> Vec<(String, Value)> {
    let conversion = converted(advertisements);
    assert_eq!((&conversion.warnings, &conversion.errors), (&vec![], &vec![]), "{advertisements:?}");
    named(&conversion)
}

fn expected(all: &[(&str, Value)]) -> Vec<(String, Value)> {
    all.iter().map(|(name, spec)| ((*name).to_owned(), spec.clone())).collect()
}

#[test]
fn what_is_announced_from_everywhere_needs_no_announcement() {
    for spec in
        ["{}", "{ipAddressPools: [a, b]}", "{nodeSelectors: [{}]}", "{nodeSelectors: [{matchLabels: {}}]}"]
    {
        assert_eq!(quietly(&[("l2", spec)]), [], "{spec}");
    }
}

#[test]
fn an_advertisement_is_an_announcement_for_the_pools_that_it_selects() {
    assert_eq!(
        quietly(&[("l2", "{interfaces: [eth1]}")]),
        expected(&[("l2", json!({ "interfaces": ["eth1"] }))])
    );
    let of_a = expected(&[("l2", json!({ "pools": ["a"], "interfaces": ["eth1"] }))]);
    for (selected, rest) in [
        ("ipAddressPools: [a]", "ipAddressPools: [b]"),
        ("ipAddressPoolSelectors: [{matchLabels: {lan: a}}]", "ipAddressPools: [b]"),
        (
            "ipAddressPoolSelectors: [{matchLabels: {lan: c}}, {matchExpressions: [{key: lan, operator: Exists}]}]",
            "ipAddressPoolSelectors: [{matchExpressions: [{key: lan, operator: DoesNotExist}]}]",
        ),
        (
            "ipAddressPoolSelectors: [{matchExpressions: [{key: lan, operator: In, values: [a]}]}]",
            "ipAddressPoolSelectors: [{matchExpressions: [{key: lan, operator: NotIn, values: [a]}]}]",
        ),
    ] {
        let (l2, open) = (format!("{{{selected}, interfaces: [eth1]}}"), format!("{{{rest}}}"));
        assert_eq!(quietly(&[("l2", &l2), ("open", &open)]), of_a, "{selected}");
    }
    let both = "{ipAddressPools: [b], ipAddressPoolSelectors: [{matchLabels: {lan: a}}], interfaces: [eth1]}";
    let spec = json!({ "pools": ["a", "b"], "interfaces": ["eth1"] });
    assert_eq!(quietly(&[("L_2", both)]), expected(&[("l-2", spec)]));
}

#[test]
fn nodes_are_those_that_the_advertisement_selects() {
    let spec =
        "{nodeSelectors: [{matchLabels: {rack: r1}}, {matchExpressions: [{key: gpu, operator: Exists}]}]}";
    let announcement = json!({ "nodeSelectors": [
        { "matchLabels": { "rack": "r1" } }, { "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] },
    ] });
    assert_eq!(quietly(&[("l2", spec)]), expected(&[("l2", announcement)]));
}

#[test]
fn several_for_one_pool_are_united_as_metallb_unites_them() {
    let r1 = "{interfaces: [eth0], nodeSelectors: [{matchLabels: {rack: r1}}]}";
    let r2 = "{interfaces: [eth0], nodeSelectors: [{matchLabels: {rack: r2}}, {matchLabels: {rack: r1}}]}";
    let racks = json!([{ "matchLabels": { "rack": "r1" } }, { "matchLabels": { "rack": "r2" } }]);
    let united = json!({ "interfaces": ["eth0"], "nodeSelectors": racks });
    assert_eq!(quietly(&[("r1", r1), ("r2", r2)]), expected(&[("r1-r2", united)]));
    // From everywhere, says one of them.
    assert_eq!(quietly(&[("r1", r1), ("open", "{}")]), []);
    // Each of the pools has its own.
    let a = "{ipAddressPools: [a], interfaces: [eth1]}";
    let conversion = converted(&[("all", "{interfaces: [eth0]}"), ("a", a)]);
    let both = json!({ "pools": ["a"], "interfaces": ["eth0", "eth1"] });
    let rest = json!({ "pools": ["b"], "interfaces": ["eth0"] });
    assert_eq!(named(&conversion), expected(&[("all-a", both), ("all", rest)]));
    contains_all(
        &conversion.warnings,
        &[&["metallb-system/all, L2Advertisement metallb-system/a: ", "eth1"]],
    );
    // What one Announcement cannot say of them.
    let r2 = "{interfaces: [eth1], nodeSelectors: [{matchLabels: {rack: r2}}]}";
    let conversion = converted(&[("r1", r1), ("r2", r2)]);
    let united = json!({ "interfaces": ["eth0", "eth1"], "nodeSelectors": racks });
    assert_eq!(named(&conversion), expected(&[("r1-r2", united)]));
    contains_all(
        &conversion.warnings,
        &[&["r1, L2Advertisement metallb-system/r2", "all these interfaces with all these nodes"], &["eth1"]],
    );
}

#[test]
fn what_is_for_some_services_comes_before_what_is_for_all() {
    let web = "{serviceSelectors: [{matchLabels: {app: web}}], interfaces: [eth0], nodeSelectors: [{matchLabels: {n: w}}]}";
    let all = "{interfaces: [eth0], nodeSelectors: [{matchLabels: {n: x}}]}";
    let (w, x) = (json!({ "matchLabels": { "n": "w" } }), json!({ "matchLabels": { "n": "x" } }));
    let first = json!({
        "priority": 50, "serviceSelectors": [{ "matchLabels": { "app": "web" } }], "interfaces": ["eth0"],
        "nodeSelectors": [w, x],
    });
    let rest = json!({ "interfaces": ["eth0"], "nodeSelectors": [x] });
    assert_eq!(quietly(&[("all", all), ("web", web)]), expected(&[("web-all", first), ("all", rest)]));
    // From everywhere for some, or for all.
    let open = "{serviceSelectors: [{matchLabels: {app: web}}]}";
    let first = json!({ "priority": 50, "serviceSelectors": [{ "matchLabels": { "app": "web" } }] });
    let rest = json!({ "interfaces": ["eth0"], "nodeSelectors": [x] });
    assert_eq!(quietly(&[("all", all), ("open", open)]), expected(&[("open-all", first), ("all", rest)]));
    assert_eq!(quietly(&[("web", web), ("open", "{}")]), []);
    assert_eq!(
        quietly(&[("web", "{serviceSelectors: [{}], interfaces: [eth9]}")])[0].1,
        json!({ "interfaces": ["eth9"] })
    );
    // For two kinds of Services, and no other.
    let db = "{serviceSelectors: [{matchLabels: {app: db}}], interfaces: [eth1]}";
    let conversion = converted(&[("web", web), ("db", db)]);
    let names: Vec<String> = named(&conversion).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["web", "db"]);
    let several = "select the same Service of pool";
    let others = "announces every Service with an address";
    let said: [&[&str]; 3] =
        [&["IPAddressPool a, IPAddressPool b: ", others], &[several, "\"a\""], &[several, "\"b\""]];
    contains_all(&conversion.warnings, &said);
}

#[test]
fn what_cannot_be_announced_so_is_told_with_what_becomes_of_it() {
    let many: Vec<String> = (0..33).map(|n| format!("{{matchLabels: {{n: n{n}}}}}")).collect();
    let many = format!("{{nodeSelectors: [{}]}}", many.join(", "));
    let rows: [(&str, &[&str]); 5] = [
        (&many, &["l2: ", "33 entries in spec.nodeSelectors", "the maximum is 32", "Until then every node"]),
        (
            "{interfaces: [an-interface-name-too-long]}",
            &["l2: spec.interfaces", "cannot be names of interfaces", "It was left out"],
        ),
        ("{interfaces: eth0}", &["l2: spec.interfaces is \"eth0\" instead of a list", "left out"]),
        (
            "{nodeSelectors: [{matchExpressions: [{key: a, operator: Like}]}]}",
            &["l2: spec.nodeSelectors[0]", "\"Like\"", "left out"],
        ),
        ("{ipAddressPoolSelectors: [7]}", &["l2: spec.ipAddressPoolSelectors[0] is 7", "left out"]),
    ];
    for (spec, words) in rows {
        let conversion = converted(&[("l2", spec)]);
        contains_all(&conversion.errors, &[words]);
        assert_eq!(named(&conversion), [], "{spec}");
    }
    let conversion = converted(&[("l2", "{ipAddressPools: [b, gone], interfaces: [eth0]}"), ("rest", "{}")]);
    contains_all(
        &conversion.warnings,
        &[&["l2: spec.ipAddressPools names \"gone\"", "Convert the pool and the advertisement together"]],
    );
}

#[test]
fn two_of_one_name_become_two() {
    let a = "{ipAddressPools: [a], interfaces: [eth0]}";
    let b = "{ipAddressPools: [b], interfaces: [eth1]}";
    let names: Vec<String> = quietly(&[("L2", a), ("l2", b)]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["l2", "l2-2"]);
}
