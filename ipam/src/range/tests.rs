use ipnet::Ipv4Net;
use proptest::prelude::*;

use super::*;

// shows: allocation 84
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

// shows: allocation 82, 84, 110
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

// shows: allocation 84
#[test]
fn leading_zeros_are_refused_as_some_read_them_as_octal() {
    for text in
        ["10.0.0.0/08", "010.0.0.0/8", "10.0.0.0/008", "2001:db8::/064", "192.0.2.0/+24", "192.0.2.0/ 24"]
    {
        let error = text.parse::<AddressRange>().expect_err(text);
        assert_eq!(error, ParseRangeError::BadCidr(text.to_owned()), "{text}");
    }
    for text in ["010.0.0.1", "010.0.0.1-010.0.0.2"] {
        text.parse::<AddressRange>().expect_err(text);
    }
}

/// Texts that are ranges, or nearly.
fn nearly_a_range() -> impl Strategy<Value = String> {
    let v4 = any::<Ipv4Addr>().prop_map(|address| address.to_string());
    let v6 = any::<Ipv6Addr>().prop_map(|address| address.to_string());
    let end = || prop_oneof![4 => v4.clone(), 4 => v6.clone(), 1 => "[0-9a-f:.]{0,12}"];
    let network = (any::<Ipv4Addr>(), 0..=32_u8)
        .prop_map(|(address, length)| Ipv4Net::new_assert(address, length).trunc().to_string());
    prop_oneof![
        1 => any::<String>(),
        1 => "[0-9a-f:./ -]{0,24}",
        2 => end(),
        2 => network,
        2 => (end(), 0..=130_u8).prop_map(|(address, length)| format!("{address}/{length}")),
        3 => (end(), " ?- ?", end()).prop_map(|(first, dash, last)| format!("{first}{dash}{last}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.12 ms each

    #[test]
    fn any_text_is_refused_or_a_range_that_prints_and_parses_to_itself(text in nearly_a_range()) {
        if let Ok(range) = text.parse::<AddressRange>() {
            prop_assert!(range.first() <= range.last());
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }

    #[test]
    fn every_range_of_usable_addresses_prints_and_parses_to_itself(ends in any::<[u32; 2]>()) {
        let [first, last] = [ends[0].min(ends[1]), ends[0].max(ends[1])].map(Ipv4Addr::from_bits);
        let text = format!("{first} - {last}");
        if let Ok(range) = text.parse::<AddressRange>() {
            prop_assert_eq!((range.first(), range.last()), (first.into(), last.into()));
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
