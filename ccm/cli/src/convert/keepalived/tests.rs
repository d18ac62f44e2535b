use proptest::prelude::*;
use serde_json::json;

use super::super::tests::{contains_all, printed_both};
use super::*;

const CONF: &str = r#"! Written by hand
global_defs {
    router_id lb1
}
vrrp_script chk_api {
    script "/usr/local/bin/check --url https://127.0.0.1:6443/readyz"   # of the API server
    interval 2
    fall 3
}
vrrp_instance VI_1 {
    state MASTER
    interface eth0
    virtual_router_id 51
    priority 150
    advert_int 1
    authentication {
        auth_type PASS
        auth_pass 1111
    }
    unicast_peer {
        192.0.2.12
    }
    virtual_ipaddress {
        192.0.2.200/24 dev eth0 label eth0:1
        2001:db8::200/64
    }
    track_script {
        chk_api
    }
}
vrrp_instance web
{
    interface eth0
    virtual_ipaddress_excluded { 192.0.2.201 }
    virtual_ipaddress {
        192.0.2.202 dev eth1
    }
    notify_master "/etc/notify.sh"
}
virtual_server 192.0.2.201 80 {
    real_server 192.0.2.21 80 { weight 1 }
}
"#;

/// `spec.vrrp` with these fields, and the defaults of the others.
fn vrrp(fields: &Value) -> Value {
    let mut vrrp = json!(windlass_api::VrrpSettings::default());
    vrrp.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    vrrp
}

#[test]
fn each_instance_becomes_a_pool_of_its_addresses_alone() {
    let conversion = convert(CONF, &[]);
    let [pools, announcements] = printed_both(&conversion);
    let specs: Vec<&Value> = announcements.iter().map(|announcement| &announcement["spec"]).collect();
    let first = json!({ "pools": ["vi-1"], "interfaces": ["eth0"], "vrrp": vrrp(&json!({ "transport": "Unicast" })) });
    let second = json!({ "pools": ["web"], "interfaces": ["eth1", "eth0"] });
    assert_eq!(specs, [&first, &second]);
    let specs: Vec<(&Value, &Value)> =
        pools.iter().map(|pool| (&pool["metadata"]["name"], &pool["spec"])).collect();
    let first = json!({ "addresses": ["192.0.2.200/32", "2001:db8::200/128"], "autoAssign": false });
    let second = json!({ "addresses": ["192.0.2.202/32", "192.0.2.201/32"], "autoAssign": false });
    assert_eq!(specs, [(&json!("vi-1"), &first), (&json!("web"), &second)]);
    contains_all(
        &conversion.warnings,
        &[
            &["line 10: vrrp_instance \"VI_1\"", "asks the API server", "--vip-port 6443"],
            &["line 24: label not converted", "adds the address to no interface"],
            &["line 10", "called \"vi-1\""],
            &["line 31: vrrp_instance \"web\"", "[\"eth1\", \"eth0\"]", "whose subnet holds it"],
            &["global_defs (line 2: router_id lb1) not converted"],
            &[
                "vrrp_script chk_api (line 5: script ",
                "track_script (line 27: chk_api)",
                "spec.checks of an Announcement",
            ],
            &["virtual_server 192.0.2.201 80 (line 40: real_server 192.0.2.21 80)", "IPVS"],
            &["state MASTER (line 11), priority 150 (line 14) not converted", "spec.preferredNodes"],
            &["virtual_router_id 51 (line 13)", "spec.vrrp.vridRange"],
            &["advert_int 1 (line 15)", "every 100 ms"],
            &["authentication (line 16: auth_type PASS, auth_pass 1111)", "spec.vrrp.authentication"],
            &["notify_master /etc/notify.sh (line 38)", "kubectl get virtualips"],
        ],
    );
    contains_all(&conversion.notes, &[&["unicast_peer became spec.vrrp.transport: Unicast"]]);
    assert_eq!(conversion.errors, [""; 0]);
}

#[test]
fn the_same_becomes_settings_of_windlass_vip_for_the_addresses_of_hosts() {
    let conf = CONF.split("vrrp_instance web").next().unwrap();
    let conversion = convert(conf, &[6443]);
    let vips: Value = serde_saphyr::from_str(&conversion.yaml).unwrap();
    let checks = json!([{
        "command": { "command": ["/usr/local/bin/check", "--url", "https://127.0.0.1:6443/readyz"] },
        "intervalMs": 2000, "timeoutMs": 2000, "rise": 1, "fall": 3,
    }]);
    let both = json!({
        "interface": "eth0", "ports": [6443], "priority": 150, "preempt": true, "advertIntervalMs": 1000, "checks": checks,
    });
    let (mut four, mut six) = (both.clone(), both);
    four["address"] = json!("192.0.2.200");
    four["peers"] = json!(["192.0.2.12"]);
    six["address"] = json!("2001:db8::200");
    assert_eq!(vips["vips"], json!([four, six]));
    contains_all(
        &conversion.warnings,
        &[
            &["line 24: label"],
            &["of another family than 2001:db8::200", "`peers`"],
            &["global_defs"],
            &["state MASTER (line 11)", "priority"],
            &["virtual_router_id 51 (line 13)", "Set `vrid`"],
            &["authentication", "keysDir"],
        ],
    );
    contains_all(&conversion.notes, &[&["`bind: true` may be needed"]]);
    assert_eq!(conversion.errors, [""; 0]);
    // What windlass vip would refuse is not printed.
    let slow = conf.replace("interval 2", "interval 600");
    let conversion = convert(&slow, &[6443]);
    assert_eq!((conversion.pools, conversion.yaml.as_str()), (0, ""));
    contains_all(&conversion.errors, &[&["windlass vip would refuse them", "intervalMs"]]);
}

#[test]
fn settings_of_windlass_vip_without_a_check_are_warned_of() {
    const NO_CHECK: &[&str] =
        &["vrrp_instance \"a\"", "no check", "keeps the address", "Write `checks`", "readyz"];
    let script = |body: &str| format!("vrrp_script alive {{\n{body}\n}}\n");
    let tracked = "track_script {\n alive\n}";
    let rows: [(&str, String, &str, &[&[&str]]); 4] = [
        ("no script", String::new(), "", &[NO_CHECK]),
        ("a script without a definition", String::new(), tracked, &[&["no such vrrp_script"], NO_CHECK]),
        ("a script that is no path", script("script check.sh"), tracked, &[NO_CHECK]),
        ("a script that becomes a check", script("script /bin/alive"), tracked, &[]),
    ];
    for (what, script, tracked, warnings) in rows {
        let conf = format!(
            "{script}vrrp_instance a {{\n interface eth0\n virtual_ipaddress {{\n 192.0.2.1\n }}\n{tracked}\n}}\n"
        );
        let conversion = convert(&conf, &[6443]);
        contains_all(&conversion.warnings, warnings);
        let vips: Value = serde_saphyr::from_str(&conversion.yaml).unwrap();
        assert_eq!(vips["vips"][0].get("checks").is_none(), warnings.contains(&NO_CHECK), "{what}: {vips}");
    }
}

#[test]
fn what_is_not_read_is_told_with_its_line() {
    let instance = |inner: &str| format!("vrrp_instance a {{\n virtual_ipaddress {{\n{inner}\n }}\n}}\n");
    let rows: [(String, usize, &[&str]); 11] = [
        (instance("192.0.2.1\n$VIP"), 1, &["line 4", "\"$VIP\" is a variable"]),
        (
            instance("192.0.2.1\n${VIP}/24 dev eth0"),
            1,
            &["line 4", "\"${VIP}/24\" is a variable or a template"],
        ),
        (
            instance("192.0.2.1\n{{ .Values.vip }} dev eth0"),
            1,
            &["line 4", "\"{{ .Values.vip }}\" is a variable or a template"],
        ),
        (instance("192.0.2.1\n@host 192.0.2.2"), 1, &["line 4", "@host"]),
        (instance("192.0.2.1\n192.0.2"), 1, &["line 4", "\"192.0.2\" is not an IP address"]),
        (instance("192.0.2.1-9\n192.0.2.3"), 1, &["line 3", "not an IP address"]),
        (
            "include /etc/keepalived/*.conf\n".to_owned() + &instance("192.0.2.1"),
            1,
            &["line 1", "join the files into one"],
        ),
        (instance("192.0.2.1") + "}\n", 1, &["line 6", "no opening brace"]),
        (
            "vrrp_instance a {\n virtual_ipaddress {\n 192.0.2.1\n }\n".to_owned(),
            1,
            &["line 1", "no closing brace"],
        ),
        ("{\n".to_owned() + &instance("192.0.2.1"), 1, &["line 1", "without a keyword"]),
        ("a {\n".repeat(100), 0, &["line 16", "too deeply"]),
    ];
    for (text, pools, words) in rows {
        let conversion = convert(&text, &[]);
        contains_all(&conversion.errors, &[words]);
        assert_eq!(printed_both(&conversion)[0].len(), pools, "{text}");
    }
    // A line goes on in the next, and comments end it.
    let split = convert(
        "vrrp_instance a {\n virtual_ipaddress {\n 192.0.2.1/24 \\\n dev eth1 # \\\n 192.0.2.2\n }\n}\n",
        &[],
    );
    let [pools, announcements] = printed_both(&split);
    assert_eq!(pools[0]["spec"]["addresses"], json!(["192.0.2.1/32", "192.0.2.2/32"]));
    assert_eq!(announcements[0]["spec"]["interfaces"], json!(["eth1"]));
    let nothing = convert("vrrp_instance {\n}\nvrrp_instance b {\n}\n", &[]);
    contains_all(&nothing.errors, &[&["line 1", "no name"], &["line 3", "0 usable ranges"]]);
}

#[test]
fn groups_of_the_operator_become_pools_of_their_services_addresses() {
    let objects = "
apiVersion: redhatcop.redhat.io/v1alpha1
kind: KeepalivedGroup
metadata: {name: router, namespace: keepalived}
spec: {image: x, interface: eth0, nodeSelector: {node-role.kubernetes.io/infra: ''}}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  annotations: {keepalived-operator.redhat-cop.io/keepalivedgroup: keepalived/router}
spec: {type: ClusterIP, externalIPs: [192.0.2.50, 192.0.2.51]}
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: shop}
spec: {externalIPs: [192.0.2.52]}
";
    let conversion = convert(objects, &[]);
    let [pools, announcements] = printed_both(&conversion);
    let spec = json!({ "addresses": ["192.0.2.50/32", "192.0.2.51/32"], "autoAssign": false });
    assert_eq!((&pools[0]["metadata"]["name"], &pools[0]["spec"]), (&json!("router"), &spec));
    let nodes = json!([{ "matchLabels": { "node-role.kubernetes.io/infra": "" } }]);
    let spec = json!({ "pools": ["router"], "interfaces": ["eth0"], "nodeSelectors": nodes });
    assert_eq!(announcements[0]["spec"], spec);
    contains_all(
        &conversion.warnings,
        &[
            &["Service shop/web", "windlass.dev/addresses: \"192.0.2.50,192.0.2.51\""],
            &["KeepalivedGroup keepalived/router: spec.image", "windlass-agent"],
        ],
    );
    // What the group has beyond that.
    let further = objects.replace("image: x, ", "interfaceFromIP: 192.0.2.9, unicastEnabled: true, blacklistRouterIDs: [1, 100], verbatimConfig: {a: b}, ");
    let conversion = convert(&further.replace("namespace: keepalived", "labels: {}"), &[]);
    let [pools, announcements] = printed_both(&conversion);
    assert_eq!(pools[0]["spec"]["addresses"], json!(["192.0.2.50/32", "192.0.2.51/32"]));
    let range = json!({ "transport": "Unicast", "vridRange": { "first": 101, "last": 255 } });
    let spec = json!({ "pools": ["router"], "nodeSelectors": announcements[0]["spec"]["nodeSelectors"], "vrrp": vrrp(&range) });
    assert_eq!(announcements[0]["spec"], spec);
    contains_all(
        &conversion.warnings,
        &[
            &["Service shop/web"],
            &["spec.interfaceFromIP \"192.0.2.9\"", "ignores spec.interface"],
            &["spec.verbatimConfig"],
        ],
    );
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "k" }, "data": { "keepalived.conf": CONF } });
    assert_eq!(convert(&map.to_string(), &[]).pools, 2);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_no_pool_has_an_address_that_does_not_stand_there(
        at in 0usize..900, cut in 0usize..60, piece in "[-{}:,#!'\"%@$ \\n0-9a-f./]{0,12}"
    ) {
        let mut chars: Vec<char> = CONF.chars().collect();
        let from = at.min(chars.len());
        let to = (from + cut).min(chars.len());
        chars.splice(from..to, piece.chars());
        let text: String = chars.into_iter().collect();
        for pool in &printed_both(&convert(&text, &[]))[0] {
            for address in pool["spec"]["addresses"].as_array().unwrap() {
                let (address, bits) = address.as_str().unwrap().split_once('/').unwrap();
                prop_assert!(bits == "32" || bits == "128");
                // As it is written, perhaps with quotes in it: an IPv6 address may be written otherwise.
                let unquoted = text.replace(['"', '\''], "");
                prop_assert!(unquoted.contains(address) || address.contains(':'), "{address}: {text}");
            }
        }
        convert(&text, &[80]);
    }

    #[test]
    fn no_nonsense_makes_it_panic(text in "\\PC{0,200}") {
        convert(&text, &[]);
        convert(&text, &[80]);
    }
}

#[test]
fn a_vrrp_script_without_a_script_is_named_among_what_was_left_out() {
    let conf = "vrrp_script chk {\n interval 2\n}\nvrrp_instance web {\n interface eth0\n virtual_ipaddress {\n 192.0.2.1\n }\n \
                track_script {\n chk\n }\n}\n";
    let conversion = convert(conf, &[443]);
    contains_all(&conversion.errors, &[&["line 1: vrrp_script \"chk\": it has no script", "left out"]]);
}
