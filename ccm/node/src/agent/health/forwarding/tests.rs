use super::*;

/// Writes the settings into a folder of their own, judges both families on eth0 by them, and returns what each sentence begins with.
fn judged(name: &str, settings: &[(&str, &str)]) -> Vec<Option<String>> {
    let root = std::env::temp_dir().join(format!("windlass-forwarding-{name}-{}", std::process::id()));
    for (setting, value) in settings {
        let path = root.join(setting);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, format!("{value}\n")).expect("written");
    }
    let segments = [Family::V4, Family::V6].map(|family| (family, "eth0".to_owned()));
    let found = findings(&root, segments.into(), &[]);
    drop(fs::remove_dir_all(root));
    let sentence = |finding| match finding {
        Finding::Failed(why) => Some(why.split(',').next().unwrap_or_default().to_owned()),
        Finding::Passed | Finding::Silent(_) => None,
    };
    found.into_values().map(sentence).collect()
}

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
        let found = judged(&at.to_string(), settings);
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{what}");
    }
}
