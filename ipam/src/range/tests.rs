use super::*;

#[test]
fn cidr_and_range_give_their_first_and_last_address() {
    let rows = [
        ("192.0.2.0/24", "192.0.2.0", "192.0.2.255"),
        ("192.0.2.4/31", "192.0.2.4", "192.0.2.5"),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7 ", "192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.0/8", "10.0.0.0", "10.255.255.255"),
        ("192.0.2.10-192.0.2.20", "192.0.2.10", "192.0.2.20"),
        (" 10.0.0.1 - 10.0.0.3 ", "10.0.0.1", "10.0.0.3"),
        ("192.0.2.9-192.0.2.9", "192.0.2.9", "192.0.2.9"),
        ("2001:db8::/64", "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff"),
        ("2001:db8::5-2001:db8::1:0", "2001:db8::5", "2001:db8::1:0"),
    ];
    for (text, first, last) in rows {
        let range: AddressRange = text.parse().expect(text);
        assert_eq!(
            (range.first().to_string(), range.last().to_string()),
            (first.into(), last.into()),
            "{text}"
        );
    }
}

#[test]
fn what_is_not_a_range_is_refused_with_value_reason_and_remedy() {
    let rows = [
        (
            "",
            r#"address range "" is neither a CIDR nor a range nor an address: write 192.0.2.0/28, 192.0.2.10-192.0.2.20 or 192.0.2.10"#,
        ),
        (
            "lan",
            r#"address range "lan" is neither a CIDR nor a range nor an address: write 192.0.2.0/28, 192.0.2.10-192.0.2.20 or 192.0.2.10"#,
        ),
        (
            "100.200.300.400/24",
            r#"address range "100.200.300.400/24" is not a valid CIDR: write an address and a prefix length, as 192.0.2.0/28 or 2001:db8::/64"#,
        ),
        (
            "192.0.2.0/33",
            r#"address range "192.0.2.0/33" is not a valid CIDR: write an address and a prefix length, as 192.0.2.0/28 or 2001:db8::/64"#,
        ),
        (
            "192.0.2.100/24",
            r#"address range "192.0.2.100/24" has bits set behind its prefix length: write 192.0.2.0/24 for the whole subnet, or 192.0.2.100/32 for the one address"#,
        ),
        (
            "192.0.2.20-192.0.2.10",
            r#"address range "192.0.2.20-192.0.2.10" ends before it begins: write 192.0.2.10-192.0.2.20"#,
        ),
        (
            "1.2.3.4-1000::1",
            r#"address range "1.2.3.4-1000::1" mixes IPv4 and IPv6: write one range for each family"#,
        ),
        (
            "192.0.2.1-192.0.2.x",
            r#"address range "192.0.2.1-192.0.2.x": "192.0.2.x" is not an IP address: write two addresses, as 192.0.2.10-192.0.2.20"#,
        ),
        (
            "1.2.3.4-1.2.3.5-1.2.3.6",
            r#"address range "1.2.3.4-1.2.3.5-1.2.3.6": "1.2.3.5-1.2.3.6" is not an IP address: write two addresses, as 192.0.2.10-192.0.2.20"#,
        ),
        (
            "127.0.0.0/8",
            r#"address range "127.0.0.0/8" includes loopback addresses, which cannot be given to a Service: leave 127.0.0.0/8 out"#,
        ),
        (
            "224.0.0.0/24",
            r#"address range "224.0.0.0/24" includes multicast addresses, which cannot be given to a Service: leave 224.0.0.0/4 out"#,
        ),
        (
            "0.0.0.0/0",
            r#"address range "0.0.0.0/0" includes the unspecified network, which cannot be given to a Service: leave 0.0.0.0/8 out"#,
        ),
        (
            "::/0",
            r#"address range "::/0" includes the unspecified and loopback addresses, which cannot be given to a Service: leave ::/127 out"#,
        ),
        (
            "::ffff:1.2.3.0/120",
            r#"address range "::ffff:1.2.3.0/120" includes IPv4-mapped addresses, which cannot be given to a Service: leave ::ffff:0:0/96 out"#,
        ),
        (
            "127.0.0.1",
            r#"address range "127.0.0.1" includes loopback addresses, which cannot be given to a Service: leave 127.0.0.0/8 out"#,
        ),
        (
            "255.255.255.255/32",
            r#"address range "255.255.255.255/32" includes the broadcast address, which cannot be given to a Service: leave 255.255.255.255 out"#,
        ),
    ];
    for (text, message) in rows {
        let error = text.parse::<AddressRange>().expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}
