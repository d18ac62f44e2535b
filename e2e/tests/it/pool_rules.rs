//! What a real API server says to pools by the rules of the custom resource definition alone: no controller runs here.

use anyhow::{Context as _, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::VirtualIPPool;
use windlass_e2e::{Lab, scenario};

/// Specs that are in order.
fn accepted() -> Vec<Value> {
    let lists: [&[&str]; 12] = [
        &["192.0.2.10"],
        &[" 192.0.2.10 "],
        &["192.0.2.0/28", "192.0.2.20-192.0.2.30", "192.0.2.31", "2001:db8::/64", "2001:db8:1::1"],
        &["192.0.2.1/32", "192.0.2.2/32", "192.0.2.3-192.0.2.3"],
        &["10.0.0.0/8", "11.0.0.0/8"],
        &["2001:db8::1/128", "2001:db8::2"],
        &["2001:db8::2-2001:db8::ffff"],
        &["2001:db8::9 - 2001:db8::10"],
        &["2001:db8::2-2001:db8::2"],
        &["2001:DB8::A-2001:db8::b"],
        &["::2-fe00::"],
        &["2001:db8::-2001:db8:0:ffff::"],
    ];
    let mut specs: Vec<_> = lists.into_iter().map(|list| json!({ "addresses": list })).collect();
    // What the rules cost is counted when they run, too: the longest lists of each kind.
    let longest: [fn(u8) -> String; 4] = [
        |n| format!("{:<95}", format!(" 10.0.{n}.1  -  10.0.{n}.200")),
        |n| format!("10.0.{n}.0/24"),
        |n| format!("{:<95}", format!("2001:db8:{n:x}::1234:5678:9a00/120")),
        |n| format!("2001:db8:{n:x}::1234:5678:9abc-2001:db8:{n:x}::1234:5678:9abd"),
    ];
    for one in longest {
        specs.push(json!({ "addresses": (0..64).map(one).collect::<Vec<_>>() }));
    }
    let mixed = (0..64).map(|n| match n % 3 {
        0 => format!("10.0.{n}.1 - 10.0.{n}.9"),
        1 => format!("2001:db8:{n:x}::/64"),
        _ => format!("2001:db9:{n:x}::1-2001:db9:{n:x}::9"),
    });
    specs.push(json!({ "addresses": mixed.collect::<Vec<_>>(), "exclude": ["10.0.0.3", "10.0.0.0/24"] }));
    let selector = json!({
        "matchLabels": { "app": "web", "example.com/a_B": "" },
        "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["x", "y"] },
            { "key": "a.b/c", "operator": "DoesNotExist" },
        ],
    });
    specs.push(json!({
        "addresses": ["192.0.2.0/28"], "autoAssign": false, "disabled": true, "avoidReserved": "SubnetAndClassC",
        "priority": 1_000_000, "namespaces": ["a", "b"], "namespaceSelectors": [selector, {}],
        "serviceSelectors": [selector], "allocationOrder": "LeastRecentlyUsed", "quarantineSeconds": 86_400,
        "onRemoval": "Move", "allowExternalIPs": true, "maxPerNamespace": 1_000_000, "maxPerService": 1_000_000,
        "namespaceQuarantineSeconds": 2_592_000, "onAddressInUse": "Claim",
    }));
    for whose in [json!({ "namespaces": ["a"] }), json!({ "namespaceSelectors": [selector] })] {
        let mut own = json!({ "addresses": ["192.0.2.0/28"], "whenFull": "Wait", "maxPerService": 3, "maxPerNamespace": 3 });
        own.as_object_mut().expect("a spec").extend(whose.as_object().cloned().expect("fields"));
        specs.push(own);
    }
    specs.push(json!({ "addresses": ["192.0.2.0/28"], "maxPerService": 3, "maxPerNamespace": null }));
    specs
}

/// Address lists that are refused, and what the refusal says.
const REFUSED_ADDRESSES: [(&[&str], &str); 36] = [
    (&[], "spec.addresses in body should have at least 1 items"),
    (&[""], "should be at least 1 chars long"),
    (
        &["garbage"],
        "\"garbage\" is neither a CIDR, nor a range of two addresses, nor an address: write 192.0.2.0/28, ",
    ),
    (&["192.0.2.300"], "\"192.0.2.300\" is neither a CIDR"),
    (&["192.0.2.0/33"], "\"192.0.2.0/33\" is neither a CIDR"),
    (&["192.0.2.1/-1"], "\"192.0.2.1/-1\" is neither a CIDR"),
    (&["192.0.2.1-"], "\"192.0.2.1-\" is neither a CIDR"),
    (&["192.0.2.1-192.0.2.3-192.0.2.5"], "is neither a CIDR"),
    (&["::ffff:192.0.2.1"], "\"::ffff:192.0.2.1\" is neither a CIDR"),
    (&["fe80::1%eth0"], "\"fe80::1%eth0\" is neither a CIDR"),
    (
        &["192.0.2.10/24"],
        "\"192.0.2.10/24\" has bits set behind its prefix length: write 192.0.2.0/24 for the whole subnet, or write \
         192.0.2.10 for the one address",
    ),
    (&["172.16.5.0/12"], "write 172.16.0.0/12 for the whole subnet"),
    (&["10.20.30.255/31"], "write 10.20.30.254/31 for the whole subnet"),
    (&["10.0.0.5/1"], "write 0.0.0.0/1 for the whole subnet"),
    (&[" 10.0.3.5/22"], "write 10.0.0.0/22 for the whole subnet, or write 10.0.3.5 for the one address"),
    (&["2001:db8::1/64"], "clear them for the whole subnet, or write 2001:db8::1 for the one address"),
    (
        &["192.0.2.1-2001:db8::1"],
        "\"192.0.2.1-2001:db8::1\" mixes IPv4 and IPv6: write one range for each family",
    ),
    (
        &["192.0.2.20-192.0.2.10"],
        "\"192.0.2.20-192.0.2.10\" ends before it begins: write 192.0.2.10-192.0.2.20",
    ),
    (&["2001:db8::10-2001:db8::9"], "ends before it begins: write 2001:db8::9-2001:db8::10"),
    (&["fe00::1-2001:db8::"], "ends before it begins: write 2001:db8::-fe00::1"),
    (&["0.0.0.0/0"], "\"0.0.0.0/0\" includes unspecified, loopback, multicast or broadcast addresses"),
    (&["127.0.0.1"], "\"127.0.0.1\" includes unspecified, loopback, multicast or broadcast addresses"),
    (&["224.0.0.1-224.0.0.9"], "which cannot be given to a Service: leave them out"),
    (&["255.255.255.255"], "broadcast addresses"),
    (&["::1"], "loopback"),
    (&["ff02::/16"], "multicast"),
    (&["192.0.2.1", "192.0.2.1"], "addresses 192.0.2.1 is written more than once: write each address once"),
    (
        &["2001:db8::1-2001:db8::9", "2001:db8::1-2001:db8::9"],
        "addresses 2001:db8::1-2001:db8::9 is written more than once",
    ),
    (&["192.0.2.1", "192.0.2.1/32"], "addresses 192.0.2.1 and 192.0.2.1/32 overlap: write each address once"),
    (&["192.0.2.0/24", "198.51.100.1", "192.0.2.255"], "addresses 192.0.2.0/24 and 192.0.2.255 overlap"),
    (&["192.0.2.0/24", "192.0.1.3-192.0.2.0"], "addresses 192.0.2.0/24 and 192.0.1.3-192.0.2.0 overlap"),
    (
        &["192.0.2.1-192.0.2.9", "192.0.2.9-192.0.2.20"],
        "addresses 192.0.2.1-192.0.2.9 and 192.0.2.9-192.0.2.20 overlap",
    ),
    (&["2001:db8::/64", "2001:db9::1", "2001:DB8::1"], "addresses 2001:db8::/64 and 2001:DB8::1 overlap"),
    (&["2001:db8::1", "2001:db8:0::1"], "addresses 2001:db8::1 and 2001:db8:0::1 overlap"),
    (
        &["2001:db8::/64", "2001:db8::5-2001:db8::9"],
        "addresses 2001:db8::5-2001:db8::9 overlap with a CIDR or an address of the same list",
    ),
    (&["garbage", "192.0.2.1", "192.0.2.1/32"], "addresses 192.0.2.1 and 192.0.2.1/32 overlap"),
];

/// Other fields that are refused, and what the refusal says.
fn refused_fields() -> Vec<(Value, &'static str)> {
    let expression = |key: &str, operator: &str, values: &[&str]| {
        let expression = if values.is_empty() {
            json!({ "key": key, "operator": operator })
        } else {
            json!({ "key": key, "operator": operator, "values": values })
        };
        json!({ "serviceSelectors": [{ "matchExpressions": [expression] }] })
    };
    vec![
        (json!({ "exclude": ["192.0.2.x"] }), "spec.exclude[0]: Invalid value: "),
        (json!({ "exclude": ["2001:db8::2-2001:db8::1"] }), "ends before it begins"),
        (json!({ "priority": -1 }), "spec.priority in body should be greater than or equal to 0"),
        (json!({ "priority": 1_000_001 }), "spec.priority in body should be less than or equal to 1000000"),
        (
            json!({ "quarantineSeconds": -1 }),
            "spec.quarantineSeconds in body should be greater than or equal to 0",
        ),
        (json!({ "quarantineSeconds": 86_401 }), "should be less than or equal to 86400"),
        (
            json!({ "maxPerNamespace": 0 }),
            "spec.maxPerNamespace in body should be greater than or equal to 1",
        ),
        (json!({ "maxPerService": 1_000_001 }), "should be less than or equal to 1000000"),
        (
            json!({ "maxPerNamespace": 2, "maxPerService": 3 }),
            "spec.maxPerService is above spec.maxPerNamespace: a Service has no more addresses than its namespace",
        ),
        (
            json!({ "whenFull": "Wait" }),
            "spec.whenFull: Wait needs spec.namespaces or spec.namespaceSelectors",
        ),
        (
            json!({ "whenFull": "Wait", "namespaces": ["a"], "autoAssign": false }),
            "which select the namespaces that the pool is for, and spec.autoAssign: true",
        ),
        (json!({ "whenFull": "Panic" }), "supported values: \"UseOthers\", \"Wait\""),
        (json!({ "namespaceQuarantineSeconds": 2_592_001 }), "should be less than or equal to 2592000"),
        (json!({ "namespaces": ["Bad_"] }), "\"Bad_\" cannot be the name of a namespace"),
        (
            json!({ "allocationOrder": "Random" }),
            "supported values: \"Lowest\", \"Highest\", \"LeastRecentlyUsed\"",
        ),
        (json!({ "onRemoval": "Drop" }), "supported values: \"Keep\", \"Move\""),
        (json!({ "onAddressInUse": "Fight" }), "supported values: \"Refuse\", \"Claim\""),
        (json!({ "avoidReserved": "Some" }), "supported values: \"None\", \"Subnet\", \"SubnetAndClassC\""),
        (json!({ "autoAssign": "maybe" }), "spec.autoAssign in body must be of type boolean"),
        (
            json!({ "namespaceSelectors": [{ "matchLabels": { "a b": "c" } }] }),
            "a key of matchLabels cannot be the name of a label: write it as app",
        ),
        (
            json!({ "serviceSelectors": [{ "matchLabels": { "a": "-x" } }] }),
            "\"-x\" cannot be the value of a label",
        ),
        (
            expression("a", "Near", &["x"]),
            "supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
        ),
        (expression("a", "In", &[]), "operator In on label \"a\": In and NotIn need values"),
        (expression("a", "Exists", &["x"]), "Exists and DoesNotExist have none"),
        (expression("a b", "Exists", &[]), "label \"a b\" cannot exist"),
        (expression("a", "In", &["x y"]), "\"x y\" cannot be the value of a label"),
    ]
}

// shows: allocation 82, 110
#[test]
fn malformed_pools_are_refused_by_the_api_server_with_the_reason() -> anyhow::Result<()> {
    scenario("malformed-pools", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let pools: Api<DynamicObject> =
            Api::all_with(lab.client(), &ApiResource::erase::<VirtualIPPool>(&()));
        let create = async |spec: &Value| {
            let object = DynamicObject::new("pool", &ApiResource::erase::<VirtualIPPool>(&()));
            let params = PostParams { dry_run: true, ..PostParams::default() };
            pools.create(&params, &object.data(json!({ "spec": spec }))).await
        };
        for spec in accepted() {
            create(&spec).await.with_context(|| format!("{spec} was refused"))?;
        }
        let lists = REFUSED_ADDRESSES.iter().map(|(list, said)| (json!({ "addresses": list }), *said));
        let fields = refused_fields().into_iter().map(|(mut spec, said)| {
            spec["addresses"] = json!(["192.0.2.0/28"]);
            (spec, said)
        });
        for (spec, said) in lists.chain(fields) {
            let refusal = create(&spec).await.err().with_context(|| format!("{spec} was accepted"))?;
            let refusal = refusal.to_string();
            ensure!(refusal.contains(said), "{spec}: the refusal does not say {said:?}: {refusal}");
        }
        let kept = pools.list(&ListParams::default()).await?.items;
        ensure!(kept.is_empty(), "a refused pool was kept: {kept:?}");
        Ok(())
    })
}
