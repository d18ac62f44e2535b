use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::*;

/// Writes the settings into a folder of their own, judges both families on eth0 by them, and returns what each sentence begins with.
fn judged(name: &str, settings: &[(&str, &str)], bridged: &[HostRoute]) -> Vec<Option<String>> {
    let root = std::env::temp_dir().join(format!("windlass-forwarding-{name}-{}", std::process::id()));
    for (setting, value) in settings {
        let path = root.join(setting);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("{value}\n")).expect("written");
    }
    let segments = [Family::V4, Family::V6].map(|family| (family, "eth0".to_owned()));
    let found = findings(&root, segments.into(), &[], bridged);
    drop(fs::remove_dir_all(root));
    let sentence = |finding| match finding {
        Finding::Failed(why) => Some(why.split(',').next().unwrap_or_default().to_owned()),
        Finding::Passed | Finding::Silent(_) => None,
    };
    found.into_values().map(sentence).collect()
}

// shows: field-reports F-79
#[test]
fn a_segment_is_judged_by_the_settings_that_the_kernel_forwards_by() {
    const V4: &str = "ipv4/ip_forward";
    const V4_ETH0: &str = "ipv4/conf/eth0/forwarding";
    const V6: &str = "ipv6/conf/all/forwarding";
    const V6_ETH0: &str = "ipv6/conf/eth0/forwarding";
    const FORCED: &str = "ipv6/conf/eth0/force_forwarding";
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], [Option<&'a str>; 2]);
    let rows: [Row<'_>; 9] = [
        ("nothing can be read", &[], [None, None]),
        ("all is well", &[(V4, "1"), (V4_ETH0, "1"), (V6, "1"), (V6_ETH0, "1")], [None, None]),
        ("ip_forward was set to 0", &[(V4, "0"), (V4_ETH0, "0")], [Some("net/ipv4/ip_forward is 0"), None]),
        (
            "that interface alone",
            &[(V4, "1"), (V4_ETH0, "0")],
            [Some("net/ipv4/conf/eth0/forwarding is 0"), None],
        ),
        ("all but that interface", &[(V4, "0"), (V4_ETH0, "1")], [None, None]),
        ("no IPv6", &[(V6, "0"), (V6_ETH0, "1")], [None, Some("net/ipv6/conf/all/forwarding is 0")]),
        ("the interface's own is about router advertisements", &[(V6, "1"), (V6_ETH0, "0")], [None, None]),
        ("forced", &[(V6, "0"), (FORCED, "1")], [None, None]),
        ("not forced", &[(V6, "0"), (FORCED, "0")], [None, Some("net/ipv6/conf/all/forwarding is 0")]),
    ];
    for (at, (what, settings, expected)) in rows.iter().enumerate() {
        let found = judged(&at.to_string(), settings, &[]);
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{what}");
    }
}

// shows: field-reports F-84
#[test]
fn a_bridge_fails_if_its_packets_pass_the_rules_of_the_family_and_a_route_leads_by_it_to_another_candidate() {
    const V4: &str = "bridge/bridge-nf-call-iptables";
    const V6: &str = "bridge/bridge-nf-call-ip6tables";
    let route = |destination: &str, interface: &str| {
        let destination: ipnet::IpNet = destination.parse().expect("a range");
        HostRoute::new(destination, interface, Some(destination.network()), true)
    };
    let both = || vec![route("203.0.113.0/27", "eth0"), route("2001:db8:1::/64", "eth0")];
    let fails = |setting: &str| Some(format!("net/{setting} is 1 and eth0 is a bridge"));
    let rows = [
        ("no br_netfilter", vec![], both(), [None, None]),
        ("nothing passes", vec![(V4, "0"), (V6, "0")], both(), [None, None]),
        ("all passes", vec![(V4, "1"), (V6, "1")], both(), [fails(V4), fails(V6)]),
        ("IPv6 alone", vec![(V4, "0"), (V6, "1")], both(), [None, fails(V6)]),
        ("pods by a tunnel", vec![(V4, "1"), (V6, "1")], vec![], [None, None]),
        ("another bridge", vec![(V4, "1")], vec![route("203.0.113.0/27", "br1")], [None, None]),
    ];
    for (what, settings, bridged, expected) in rows {
        assert_eq!(judged(what, &settings, &bridged), expected, "{what}");
    }
}

/// The families whose segment fails, and the sentences, in a network namespace of its own with these chains of nftables.
/// Returns `None` without root.
fn judged_with(ruleset: &str) -> Option<Vec<(Family, String)>> {
    let body = || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            assert!(
                std::env::var("CI").is_err(),
                "this test makes a network namespace: run as root ({error})"
            );
            eprintln!("skipped: makes a network namespace and needs root ({error})");
            return None;
        }
        let nft = Command::new("nft").arg(ruleset).output().expect("nft");
        assert!(nft.status.success(), "{ruleset}: {}", String::from_utf8_lossy(&nft.stderr));
        let dropping = windlass_engine::chains_that_drop_all().expect("a list of chains");
        let segments = [Family::V4, Family::V6].map(|family| (family, "eth0".to_owned()));
        let found = findings(Path::new("/nonexistent"), segments.into(), &dropping, &[]);
        let failed = found.into_iter().filter_map(|((family, _), finding)| match finding {
            Finding::Failed(why) => Some((family, why)),
            Finding::Passed | Finding::Silent(_) => None,
        });
        Some(failed.collect())
    };
    std::thread::scope(|scope| scope.spawn(body).join().expect("judged"))
}

// shows: field-reports F-79
#[test]
fn a_segment_fails_whose_packets_a_forward_chain_drops_and_the_sentence_names_the_chain() {
    let chain = |family: &str, table: &str, chain: &str, policy: &str, rule: &str| {
        format!(
            "add table {family} {table}; add chain {family} {table} {chain} {{ type filter hook forward priority 0; policy {policy}; }}; \
             {rule}"
        )
    };
    let rows: [(String, &[Family], &str); 6] = [
        (chain("ip", "filter", "FORWARD", "drop", ""), &[Family::V4], "ip filter FORWARD"),
        (chain("ip6", "filter", "FORWARD", "drop", ""), &[Family::V6], "ip6 filter FORWARD"),
        (chain("inet", "filter", "forward", "drop", ""), &[Family::V4, Family::V6], "inet filter forward"),
        (chain("ip", "filter", "FORWARD", "accept", ""), &[], ""),
        (chain("ip", "filter", "FORWARD", "drop", "add rule ip filter FORWARD accept"), &[], ""),
        (chain("ip", "other", "FORWARD", "drop", ""), &[], ""),
    ];
    for (ruleset, failing, name) in rows {
        let Some(found) = judged_with(&ruleset) else { return };
        let families: Vec<Family> = found.iter().map(|(family, _)| *family).collect();
        assert_eq!(families, failing, "{ruleset}");
        for (_, why) in found {
            assert!(why.starts_with(&format!("the nftables chain {name} has policy drop")), "{why}");
            assert!(why.contains(&format!("nft chain {name} '{{ policy accept; }}'")), "{why}");
        }
    }
}
