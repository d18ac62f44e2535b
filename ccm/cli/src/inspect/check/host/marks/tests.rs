use super::*;

// shows: field-reports F-77
#[test]
fn rules_of_others_that_test_a_mark_are_read_and_those_of_windlass_passed_over() {
    let text = "0:\tfrom all lookup local\n\
        87:\tfrom all fwmark 0x10/0xf0 lookup 22273 proto 87\n\
        100:\tfrom all fwmark 0x10/0xff lookup 100\n\
        105:\tfrom all fwmark 0x1bd10 lookup netbird\n\
        32764:\tnot from all fwmark 0xca6c lookup 51820\n\
        32766:\tfrom all lookup main\nnonsense\n";
    let found: Vec<(String, u32)> = rules(text).into_iter().map(|user| (user.name, user.bits)).collect();
    let expected = [("ip rule 100", 0xff), ("ip rule 105", u32::MAX), ("ip rule 32764", u32::MAX)];
    assert_eq!(found, expected.map(|(name, bits)| (name.to_owned(), bits)));
}

#[test]
fn the_bits_that_a_rule_of_nftables_tests_or_writes_are_read() {
    let rows = [
        ("meta mark set meta mark or 0x00004000", Some(0x4000)),
        ("meta mark set meta mark | 0x00004000", Some(0x4000)),
        ("meta mark set mark or 0x4000", Some(0x4000)),
        ("meta mark set meta mark & 0xffff00ff ^ 0x00000100", Some(0xff00)),
        ("meta mark set 0x0001bd10 accept", Some(u32::MAX)),
        ("ct state new meta mark set ct mark", Some(u32::MAX)),
        ("meta mark & 0x000000f0 == 0x00000010 counter packets 0 bytes 0 accept", Some(0xf0)),
        ("meta mark and 0xff == 0x10 accept", Some(0xff)),
        ("meta mark 0x00000010 drop", Some(u32::MAX)),
        ("ct mark set meta mark", None),
        ("ct mark 0x10 accept", None),
        ("ip daddr 192.0.2.1 accept", None),
        ("meta mark", Some(0)),
        ("", None),
    ];
    for (rule, expected) in rows {
        let words: Vec<&str> = rule.split_whitespace().collect();
        assert_eq!(bits(&words), expected, "{rule}");
    }
}

#[test]
fn a_ruleset_tells_who_marks_and_which_chains_drop() {
    let text = "table inet windlass {\n\tchain moved {\n\t\ttype filter hook prerouting priority -190; policy accept;\n\
        \t\tmeta mark set meta mark & 0xffffff0f ^ 0x00000010\n\t}\n}\n\
        table ip kube-proxy {\n\tset cluster-ips {\n\t\ttype ipv4_addr\n\t}\n\n\tchain masquerading {\n\
        \t\tmeta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random\n\t}\n}\n\
        table ip mangle {\n\tchain PREROUTING {\n\t\ttype filter hook prerouting priority mangle; policy accept;\n\
        \t\tiifname \"wt0\" counter packets 0 bytes 0 meta mark set 0x1bd10\n\t}\n}\n\
        table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\
        \t\tcounter packets 0 bytes 0 jump KUBE-FORWARD\n\t}\n}\n\
        table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n";
    let found = ruleset(text);
    assert_eq!(found.masquerade, Some(0x4000));
    let users: Vec<(&str, u32)> = found.users.iter().map(|user| (user.name.as_str(), user.bits)).collect();
    assert_eq!(
        users,
        [
            ("nftables chain ip kube-proxy masquerading", 0x4000),
            ("nftables chain ip mangle PREROUTING", u32::MAX),
        ]
    );
    assert_eq!(found.dropping, ["inet filter forward", "ip filter FORWARD"].map(str::to_owned).into());
    assert_eq!(ruleset("nonsense {\n}\n"), Ruleset::default());
}
