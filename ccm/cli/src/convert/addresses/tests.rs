use super::*;

fn read(text: &str) -> Range {
    Range::read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn ranges_are_read_as_metallb_reads_them_and_written_as_an_ip_pool_takes_them() {
    let rows = [
        ("192.0.2.0/28", "192.0.2.0/28", "192.0.2.0-192.0.2.15"),
        (" 192.0.2.0/24 ", "192.0.2.0/24", "192.0.2.0/24"),
        ("192.0.2.100/24", "192.0.2.0/24", "192.0.2.0/24"),
        ("192.0.2.7/32", "192.0.2.7/32", "192.0.2.7/32"),
        ("192.0.2.7", "192.0.2.7/32", "192.0.2.7/32"),
        ("192.0.2.10 - 192.0.2.20", "192.0.2.10-192.0.2.20", "192.0.2.10-192.0.2.20"),
        ("192.0.2.10-192.0.2.10", "192.0.2.10/32", "192.0.2.10/32"),
        ("2001:DB8:0::/124", "2001:db8::/124", "2001:db8::-2001:db8::f"),
        ("2001:db8::1-2001:db8:0:0::9", "2001:db8::1-2001:db8::9", "2001:db8::1-2001:db8::9"),
    ];
    for (text, written, with_usable_ends) in rows {
        assert_eq!(read(text).written(false), written, "{text:?}");
        assert_eq!(read(text).written(true), with_usable_ends, "{text:?}");
    }
}

#[test]
fn what_an_ip_pool_would_refuse_is_refused_with_its_reason() {
    let says = |text: &str, reason: &str| {
        let error = Range::read(text).expect_err(text).to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains(reason), "{text:?}: {error}");
    };
    for text in ["", "pool"] {
        says(text, "is neither a CIDR nor a range nor an address");
    }
    for text in ["192.0.2.0/33", "192.0.2.0/24/24"] {
        says(text, "is not a valid CIDR");
    }
    for text in ["-", "192.0.2.1-", "1-2-3"] {
        says(text, "is not an IP address");
    }
    for text in [
        "0.0.0.0/0",
        "127.0.0.1/32",
        "224.0.0.5",
        "223.0.0.0-224.0.0.1",
        "255.255.255.255",
        "::/64",
        "ff02::1",
        "::ffff:192.0.2.0/120",
    ] {
        let error = Range::read(text).expect_err(text).to_string();
        assert!(error.contains("cannot be given to a Service"), "{text:?}: {error}");
    }
    says("192.0.2.1-2001:db8::1", "mixes IPv4 and IPv6");
    says("192.0.2.9-192.0.2.1", "ends before it begins: write 192.0.2.1-192.0.2.9");
}

#[test]
fn bits_behind_the_prefix_are_seen() {
    assert_eq!(Range::subnet_of_host("192.0.2.0/24"), None);
    assert_eq!(Range::subnet_of_host("192.0.2.9"), None);
    assert_eq!(Range::subnet_of_host("192.0.2.9/24").map(|net| net.to_string()), Some("192.0.2.0/24".into()));
}

#[test]
fn an_address_of_two_ranges_is_taken_once() {
    let rows: [(&str, &[&str], &[&str]); 7] = [
        ("192.0.2.0/24", &[], &["192.0.2.0/24"]),
        ("192.0.2.0/24", &["198.51.100.0/24", "2001:db8::/64"], &["192.0.2.0/24"]),
        ("192.0.2.0/24", &["192.0.2.0-192.0.3.0"], &[]),
        ("192.0.2.0/24", &["192.0.2.0/25"], &["192.0.2.128-192.0.2.255"]),
        ("192.0.2.0/24", &["192.0.2.255"], &["192.0.2.0-192.0.2.254"]),
        (
            "192.0.2.0/24",
            &["192.0.2.10-192.0.2.19", "192.0.2.1"],
            &["192.0.2.0/32", "192.0.2.2-192.0.2.9", "192.0.2.20-192.0.2.255"],
        ),
        ("2001:db8::/126", &["2001:db8::2"], &["2001:db8::-2001:db8::1", "2001:db8::3/128"]),
    ];
    for (text, others, left) in rows {
        let others: Vec<Range> = others.iter().map(|other| read(other)).collect();
        let written: Vec<String> =
            read(text).without(&others).iter().map(|part| part.written(false)).collect();
        assert_eq!(written, left, "{text} without {others:?}");
    }
}
