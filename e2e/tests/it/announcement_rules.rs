//! What a real API server says to Announcements by the rules of the custom resource definition alone: no controller runs here.

use anyhow::{Context as _, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::Announcement;
use windlass_e2e::{Lab, scenario};

/// A selector with everything that a selector may have.
fn selector() -> Value {
    json!({
        "matchLabels": { "app": "web", "example.com/a_B": "" },
        "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["x", "y"] },
            { "key": "a.b/c", "operator": "DoesNotExist" },
        ],
    })
}

/// As many selectors as a list takes, each as long as it may be: what the rules cost is counted when they run, too.
fn longest_selectors() -> Vec<Value> {
    let label = |n: usize| format!("{:a<253}/{:a<63}", format!("{n}."), "b");
    let value = "v".repeat(63);
    let labels: serde_json::Map<String, Value> = (0..16).map(|n| (label(n), json!(value))).collect();
    let expressions: Vec<Value> = (0..16)
        .map(|n| json!({ "key": label(n), "operator": "NotIn", "values": vec![&value; 32] }))
        .collect();
    vec![json!({ "matchLabels": labels, "matchExpressions": expressions }); 32]
}

/// Specs that are in order.
fn accepted() -> Vec<Value> {
    let mut specs = vec![
        json!({}),
        json!({ "vrrp": {} }),
        json!({ "excludeInterfaces": [], "interfaces": [], "pools": [], "namespaces": [] }),
        json!({ "interfaces": ["*"], "excludeInterfaces": ["*"] }),
        json!({ "interfaces": ["eth0", "eth0.100", "bond*", "en*s?", "...", "ünï", "fifteen-letters"] }),
        json!({ "vrrp": { "vridRange": { "first": 7, "last": 7 } } }),
        json!({ "vrrp": { "vridRange": { "first": 1, "last": 255 } } }),
        json!({ "vrrp": { "vridRange": null, "authentication": null } }),
        json!({ "vrrp": { "authentication": { "keyId": 1 }, "transport": "Multicast" } }),
        json!({ "vrrp": { "advertisementIntervalMilliseconds": 10 }, "priority": 0 }),
        json!({ "checks": [] }),
        json!({ "checks": [{ "httpGet": { "port": 1 } }, { "tcpSocket": { "port": 65_535 } }] }),
        json!({ "checks": [
            { "httpGet": { "port": 6443, "scheme": "HTTPS" } },
            { "grpc": { "port": 1 } },
            { "grpc": { "host": "2001:db8::1", "port": 65_535, "service": "a.B/c-d'~" } },
        ] }),
        json!({ "checks": [
            {
                "httpGet": { "host": "192.0.2.1", "port": 80, "path": "/-AZaz09._~!$&()*+,;=:@/?%4a?", "scheme": "HTTP" },
                "periodSeconds": 600, "timeoutSeconds": 60, "failureThreshold": 100,
            },
            {
                "tcpSocket": { "host": "2001:db8::1", "port": 22 },
                "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1,
            },
        ] }),
        json!({ "checks": [
            { "link": { "interfaces": ["bond0"] } },
            {
                "link": { "interfaces": vec!["en*s?"; 16], "minimum": 256, "minimumMegabitsPerSecond": 100_000_000 },
                "failureThreshold": 1,
            },
        ] }),
        json!({ "checks": vec![json!({ "httpGet": {
            "host": "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "port": 80, "path": format!("/{}", "a".repeat(255)),
        } }); 8] }),
        json!({
            "priority": 1_000_000, "pools": ["lan", "of-0.12"], "namespaces": ["a", "b"],
            "namespaceSelectors": [selector(), {}], "serviceSelectors": [selector()], "nodeSelectors": [{}, selector()],
            "preferredNodes": [{ "weight": 1, "selector": {} }, { "weight": 100, "selector": selector() }],
            "interfaces": ["eth0"], "excludeInterfaces": ["docker0"], "addressConflict": "Yield", "connections": "Replicate",
            "vrrp": {
                "advertisementIntervalMilliseconds": 40_950, "preemptDelaySeconds": 3600, "transport": "Unicast",
                "authentication": { "keyId": 255 }, "vridRange": { "first": 100, "last": 199 },
            },
        }),
    ];
    for field in ["namespaceSelectors", "serviceSelectors", "nodeSelectors"] {
        specs.push(json!({ field: longest_selectors() }));
    }
    let preferred: Vec<Value> = longest_selectors()
        .into_iter()
        .map(|selector| json!({ "weight": 50, "selector": selector }))
        .collect();
    specs.push(json!({ "preferredNodes": preferred }));
    specs.push(json!({
        "pools": (0..256).map(|n| format!("{n:a<253}")).collect::<Vec<_>>(),
        "namespaces": (0..256).map(|n| format!("{n:a<63}")).collect::<Vec<_>>(),
        "interfaces": vec!["fifteen-letters"; 32], "excludeInterfaces": vec!["fifteen-letter*"; 32],
    }));
    specs
}

/// Specs that are refused, and what the refusal says.
fn refused() -> Vec<(Value, String)> {
    let mut rows: Vec<(Value, String)> = Vec::new();
    let mut row = |spec: Value, said: &str| rows.push((spec, said.to_owned()));

    for field in ["interfaces", "excludeInterfaces"] {
        for name in [" ", "eth 0", "eth0 ", "a/b", "*/*", ".", "..", "eth\t0"] {
            row(json!({ field: ["eth0", name] }), &format!("spec.{field}[1]: Invalid value:"));
            row(json!({ field: [name] }), "cannot exist: an interface name has no blank");
        }
        row(
            json!({ field: ["a/b"] }),
            "interface \"a/b\" cannot exist: an interface name has no blank and no \"/\" in it",
        );
        // (The API server says the rule itself where a message would have two lines, and older ones do not say the value.)
        row(json!({ field: ["a\nb"] }), &format!("spec.{field}[0]: Invalid value: "));
        row(json!({ field: [""] }), &format!("spec.{field}[0] in body should be at least 1 chars long"));
        row(json!({ field: ["sixteen-letters*"] }), "Too long: may not be more than 15");
        row(json!({ field: ["eth0", 7] }), &format!("spec.{field}[1] in body must be of type string"));
        row(json!({ field: "eth0" }), &format!("spec.{field} in body must be of type array"));
        row(json!({ field: vec!["eth0"; 33] }), "must have at most 32 items");
    }

    let expression = |key: &str, operator: &str, values: &[&str]| {
        let expression = if values.is_empty() {
            json!({ "key": key, "operator": operator })
        } else {
            json!({ "key": key, "operator": operator, "values": values })
        };
        json!({ "matchExpressions": [expression] })
    };
    let bad_selectors = [
        (
            json!({ "matchLabels": { "a b": "c" } }),
            "a key of matchLabels cannot be the name of a label: write it as app",
        ),
        (json!({ "matchLabels": { "a": "-x" } }), "\"-x\" cannot be the value of a label"),
        (json!({ "matchLabels": { "a": 7 } }), "must be of type string"),
        (
            expression("a", "Near", &["x"]),
            "supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
        ),
        (expression("a", "In", &[]), "operator In on label \"a\": In and NotIn need values"),
        (expression("a", "NotIn", &[]), "operator NotIn on label \"a\": In and NotIn need values"),
        (expression("a", "Exists", &["x"]), "Exists and DoesNotExist have none"),
        (expression("a b", "Exists", &[]), "label \"a b\" cannot exist"),
        (expression("a", "In", &["x y"]), "\"x y\" cannot be the value of a label"),
        (json!("app=web"), "must be of type object"),
    ];
    for (selector, said) in &bad_selectors {
        for field in ["namespaceSelectors", "serviceSelectors", "nodeSelectors"] {
            row(json!({ field: [{}, selector] }), &format!("spec.{field}[1]"));
            row(json!({ field: [selector] }), said);
        }
        row(json!({ "preferredNodes": [{ "weight": 1, "selector": selector }] }), said);
    }
    for field in ["namespaceSelectors", "serviceSelectors", "nodeSelectors"] {
        row(json!({ field: vec![json!({}); 33] }), "must have at most 32 items");
    }

    for (weight, said) in [
        (json!(0), "spec.preferredNodes[0].weight in body should be greater than or equal to 1"),
        (json!(-1), "spec.preferredNodes[0].weight in body should be greater than or equal to 1"),
        (json!(101), "spec.preferredNodes[0].weight in body should be less than or equal to 100"),
        (json!(1.5), "spec.preferredNodes[0].weight in body must be of type int"),
    ] {
        row(json!({ "preferredNodes": [{ "weight": weight, "selector": {} }] }), said);
    }
    row(json!({ "preferredNodes": [{ "weight": 1 }] }), "spec.preferredNodes[0].selector: Required value");
    row(json!({ "preferredNodes": [{ "selector": {} }] }), "spec.preferredNodes[0].weight: Required value");
    row(
        json!({ "preferredNodes": vec![json!({ "weight": 1, "selector": {} }); 33] }),
        "must have at most 32 items",
    );

    let least =
        |field: &str, least: u32| format!("spec.{field} in body should be greater than or equal to {least}");
    let most =
        |field: &str, most: u32| format!("spec.{field} in body should be less than or equal to {most}");
    let interval = "vrrp.advertisementIntervalMilliseconds";
    for (milliseconds, said) in [
        (-10, least(interval, 10)),
        (0, least(interval, 10)),
        (5, least(interval, 10)),
        (15, "an advertisement interval is a multiple of 10 milliseconds".to_owned()),
        (40_960, most(interval, 40_950)),
        (50_000, most(interval, 40_950)),
    ] {
        row(json!({ "vrrp": { "advertisementIntervalMilliseconds": milliseconds } }), &said);
    }
    for (seconds, said) in
        [(-1, least("vrrp.preemptDelaySeconds", 0)), (3601, most("vrrp.preemptDelaySeconds", 3600))]
    {
        row(json!({ "vrrp": { "preemptDelaySeconds": seconds } }), &said);
    }
    for (key, said) in [
        (-1, least("vrrp.authentication.keyId", 1)),
        (0, least("vrrp.authentication.keyId", 1)),
        (256, most("vrrp.authentication.keyId", 255)),
    ] {
        row(json!({ "vrrp": { "authentication": { "keyId": key } } }), &said);
    }
    row(json!({ "vrrp": { "authentication": {} } }), "spec.vrrp.authentication.keyId: Required value");
    for (first, last, said) in [
        (9, 8, "a range of VRIDs ends before it begins: write the lower number first".to_owned()),
        (255, 1, "a range of VRIDs ends before it begins".to_owned()),
        (0, 8, least("vrrp.vridRange.first", 1)),
        (0, 0, least("vrrp.vridRange.last", 1)),
        (1, 256, most("vrrp.vridRange.last", 255)),
        (256, 256, most("vrrp.vridRange.first", 255)),
    ] {
        row(json!({ "vrrp": { "vridRange": { "first": first, "last": last } } }), &said);
    }
    row(json!({ "vrrp": { "vridRange": { "first": 1 } } }), "spec.vrrp.vridRange.last: Required value");
    row(json!({ "vrrp": { "vridRange": { "last": 1 } } }), "spec.vrrp.vridRange.first: Required value");
    for transport in ["multicast", "Broadcast", ""] {
        row(json!({ "vrrp": { "transport": transport } }), "supported values: \"Multicast\", \"Unicast\"");
    }
    for policy in ["yield", "Ignore", ""] {
        row(json!({ "addressConflict": policy }), "supported values: \"Defend\", \"Yield\"");
    }
    for policy in ["replicate", "Keep", ""] {
        row(json!({ "connections": policy }), "supported values: \"Replicate\", \"Forward\", \"None\"");
    }
    row(json!({ "vrrp": "Unicast" }), "spec.vrrp in body must be of type object");

    let check = |action: Value| json!({ "checks": [{ "tcpSocket": { "port": 22 } }, action] });
    for action in [
        json!({}),
        json!({ "periodSeconds": 1 }),
        json!({ "httpGet": { "port": 80 }, "tcpSocket": { "port": 80 } }),
        json!({ "tcpSocket": { "port": 80 }, "link": { "interfaces": ["eth0"] } }),
        json!({ "tcpSocket": { "port": 80 }, "grpc": { "port": 80 } }),
    ] {
        row(
            check(action),
            "a check asks one thing: give it exactly one of httpGet, tcpSocket, grpc and link",
        );
    }
    let link = |interfaces: Value| check(json!({ "link": { "interfaces": interfaces } }));
    row(check(json!({ "link": {} })), "spec.checks[1].link.interfaces: Required value");
    row(link(json!([])), "should have at least 1 items");
    row(link(json!(vec!["eth0"; 17])), "must have at most 16 items");
    for name in ["a b", "a/b", ".."] {
        row(link(json!([name])), &format!("interface \"{name}\" cannot exist"));
    }
    for (name, highest) in [("minimum", 256), ("minimumMegabitsPerSecond", 100_000_000)] {
        let with = |value: u32| check(json!({ "link": { "interfaces": ["eth0"], name: value } }));
        row(with(0), &least(&format!("checks[1].link.{name}"), 1));
        row(with(highest + 1), &most(&format!("checks[1].link.{name}"), highest));
    }
    for kind in ["httpGet", "tcpSocket", "grpc"] {
        let field = |name: &str| format!("checks[1].{kind}.{name}");
        row(check(json!({ kind: {} })), &format!("spec.{}: Required value", field("port")));
        row(check(json!({ kind: { "port": 0 } })), &least(&field("port"), 1));
        row(check(json!({ kind: { "port": 65_536 } })), &most(&field("port"), 65_535));
        row(
            check(json!({ kind: { "port": "http" } })),
            &format!("spec.{} in body must be of type", field("port")),
        );
        for host in ["localhost", "192.0.2.0/24", "192.0.2.1:80", "fe80::1%eth0", ""] {
            row(
                check(json!({ kind: { "port": 80, "host": host } })),
                &format!("host \"{host}\" is not an IP address: names are not looked up"),
            );
        }
        for (name, highest) in [("periodSeconds", 600), ("timeoutSeconds", 60), ("failureThreshold", 100)] {
            let with = |value: u32| check(json!({ kind: { "port": 80 }, name: value }));
            row(with(0), &least(&format!("checks[1].{name}"), 1));
            row(with(highest + 1), &most(&format!("checks[1].{name}"), highest));
        }
    }
    for path in ["healthz", "/a b", "/ü", "/a#b", "/%4", "/%zz", "/'", "http://192.0.2.1/"] {
        row(
            check(json!({ "httpGet": { "port": 80, "path": path } })),
            &format!("path \"{path}\" cannot be requested: it must begin with \"/\""),
        );
    }
    row(check(json!({ "httpGet": { "port": 80, "path": "" } })), "should be at least 1 chars long");
    row(
        check(json!({ "httpGet": { "port": 80, "path": "/".repeat(257) } })),
        "Too long: may not be more than 256",
    );
    for scheme in ["https", "http"] {
        row(
            check(json!({ "httpGet": { "port": 80, "scheme": scheme } })),
            "supported values: \"HTTP\", \"HTTPS\"",
        );
    }
    for service in ["a b", "ü", " "] {
        row(
            check(json!({ "grpc": { "port": 80, "service": service } })),
            &format!("service \"{service}\" cannot be requested: it must have only printable characters"),
        );
    }
    row(
        check(json!({ "grpc": { "port": 80, "service": "a".repeat(257) } })),
        "Too long: may not be more than 256",
    );
    row(json!({ "checks": vec![json!({ "tcpSocket": { "port": 22 } }); 9] }), "must have at most 8 items");

    row(json!({ "priority": -1 }), &least("priority", 0));
    row(json!({ "priority": 1_000_001 }), &most("priority", 1_000_000));
    row(json!({ "priority": "first" }), "spec.priority in body must be of type integer");
    for name in ["Lan", "a b", "-a", "a-", "a/b", "a_b", ".", "*"] {
        row(json!({ "pools": ["lan", name] }), "spec.pools[1]: Invalid value: ");
        row(
            json!({ "pools": [name] }),
            &format!("\"{name}\" cannot be the name of a pool: it has lower-case letters"),
        );
        row(json!({ "namespaces": [name] }), &format!("\"{name}\" cannot be the name of a namespace"));
    }
    row(json!({ "namespaces": ["a.b"] }), "\"a.b\" cannot be the name of a namespace");
    for field in ["pools", "namespaces"] {
        row(json!({ field: [""] }), &format!("spec.{field}[0] in body should be at least 1 chars long"));
        row(
            json!({ field: (0..257).map(|n| format!("n{n}")).collect::<Vec<_>>() }),
            "must have at most 256 items",
        );
    }
    row(json!({ "pools": ["a".repeat(254)] }), "Too long: may not be more than 253");
    row(json!({ "namespaces": ["a".repeat(64)] }), "Too long: may not be more than 63");
    rows
}

#[test]
fn malformed_announcements_are_refused_by_the_api_server_with_the_reason() -> anyhow::Result<()> {
    scenario("malformed-announcements", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let announcements: Api<DynamicObject> =
            Api::all_with(lab.client(), &ApiResource::erase::<Announcement>(&()));
        let create = async |spec: &Value| {
            let object = DynamicObject::new("announcement", &ApiResource::erase::<Announcement>(&()));
            let params = PostParams { dry_run: true, ..PostParams::default() };
            announcements.create(&params, &object.data(json!({ "spec": spec }))).await
        };
        let shown = |spec: &Value| spec.to_string().chars().take(300).collect::<String>();
        for spec in accepted() {
            create(&spec).await.with_context(|| format!("{} was refused", shown(&spec)))?;
        }
        for (spec, said) in refused() {
            let refusal = create(&spec)
                .await
                .err()
                .with_context(|| format!("{} was accepted", shown(&spec)))?
                .to_string()
                // As Kubernetes 1.31 says it.
                .replace("may not be longer than", "may not be more than");
            ensure!(
                refusal.contains(&said),
                "{}: the refusal does not say {said:?}: {refusal}",
                shown(&spec)
            );
        }
        let kept = announcements.list(&ListParams::default()).await?.items;
        ensure!(kept.is_empty(), "a refused Announcement was kept: {kept:?}");
        Ok(())
    })
}

#[test]
fn what_is_left_out_of_an_announcement_is_shown_as_its_default() -> anyhow::Result<()> {
    scenario("announcement-defaults", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let announcements: Api<DynamicObject> =
            Api::all_with(lab.client(), &ApiResource::erase::<Announcement>(&()));
        let defaults = json!({
            "priority": 100, "unschedulableNodes": "Serve", "addressConflict": "Defend", "connections": "Replicate", "loadSharing": "Local", "excludeInterfaces": ["docker*", "podman*", "virbr*"],
            "vrrp": { "advertisementIntervalMilliseconds": 100, "preemptDelaySeconds": 0, "transport": "Multicast",
                "unicastFallback": true, "virtualMAC": false },
        });
        let own = json!({
            "priority": 100, "unschedulableNodes": "Serve", "addressConflict": "Defend", "connections": "Replicate", "loadSharing": "Local", "excludeInterfaces": [],
            "vrrp": { "advertisementIntervalMilliseconds": 1000, "preemptDelaySeconds": 0, "transport": "Unicast",
                "unicastFallback": true, "virtualMAC": false },
        });
        let checked = json!({
            "checks": [
                {
                    "httpGet": { "port": 8080, "path": "/", "scheme": "HTTP" },
                    "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3,
                },
                { "tcpSocket": { "port": 22 }, "periodSeconds": 5, "timeoutSeconds": 1, "failureThreshold": 3 },
            ],
            "priority": 100, "unschedulableNodes": "Serve", "addressConflict": "Defend", "connections": "Replicate", "loadSharing": "Local", "excludeInterfaces": ["docker*", "podman*", "virbr*"],
            "vrrp": { "advertisementIntervalMilliseconds": 100, "preemptDelaySeconds": 0, "transport": "Multicast",
                "unicastFallback": true, "virtualMAC": false },
        });
        let checks = json!({ "checks": [
            { "httpGet": { "port": 8080 } },
            { "tcpSocket": { "port": 22 }, "periodSeconds": 5 },
        ] });
        let chosen = json!({ "excludeInterfaces": [], "vrrp": { "advertisementIntervalMilliseconds": 1000, "transport": "Unicast" } });
        for (name, spec, expected) in [
            ("none", json!({}), &defaults),
            ("vrrp", json!({ "vrrp": {} }), &defaults),
            ("own", chosen, &own),
            ("checks", checks, &checked),
        ] {
            let object = DynamicObject::new(name, &ApiResource::erase::<Announcement>(&()));
            announcements.create(&PostParams::default(), &object.data(json!({ "spec": spec }))).await?;
            let kept = announcements.get(name).await?.data["spec"].clone();
            ensure!(kept == *expected, "of {spec} it has {kept}");
        }
        // A later change is judged, too.
        lab.kubectl(&[
            "patch",
            "announcement",
            "own",
            "--type=merge",
            "--patch",
            r#"{"spec": {"interfaces": ["bond*"]}}"#,
        ])
        .await?;
        let bad = r#"{"spec": {"vrrp": {"vridRange": {"first": 2, "last": 1}}}}"#;
        let refusal =
            lab.kubectl(&["patch", "announcement", "own", "--type=merge", "--patch", bad]).await.err();
        let refusal = refusal.context("the change was accepted")?.to_string();
        ensure!(refusal.contains("a range of VRIDs ends before it begins"), "the refusal says {refusal}");
        Ok(())
    })
}
