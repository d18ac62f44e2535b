use super::*;

fn prefix(text: &str) -> Result<Prefix, InvalidPrefix> {
    Prefix::new(text.parse().unwrap())
}

// shows: bgp B33, B34
#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    assert_eq!(Asn::new(0), Err(InvalidAsn(0)));
    assert_eq!(Asn::new(23456), Err(InvalidAsn(23456)));
    assert_eq!(Asn::new(u32::MAX).map(Asn::get), Ok(u32::MAX));
    for seconds in [0, 3, 65535] {
        assert_eq!(HoldTime::new(seconds).map(HoldTime::seconds), Ok(seconds));
    }
    assert_eq!(
        HoldTime::new(2).unwrap_err().to_string(),
        "hold time of 2 s is not allowed: use 0 or 3 to 65535 (RFC 4271 §4.2)"
    );
    assert_eq!(RouterId::new(Ipv4Addr::UNSPECIFIED), Err(InvalidRouterId));
}

// shows: bgp B48
#[test]
fn no_route_is_made_to_what_no_cluster_serves() {
    for refused in ["0.0.0.0/0", "203.0.0.0/7", "2001:d00::/18", "::/0"] {
        assert!(matches!(prefix(refused), Err(InvalidPrefix::Short(..))), "{refused}");
    }
    let unusable = [
        "127.0.0.1/32",
        "0.1.2.0/24",
        "169.254.7.7/32",
        "224.0.0.18/32",
        "240.0.0.0/8",
        "255.255.255.255/32",
        "::1/128",
        "::/128",
        "::ffff:192.0.2.1/128",
        "fe80::1/128",
        "ff02::1/128",
        "169.0.0.0/8",
    ];
    for refused in unusable {
        assert!(matches!(prefix(refused), Err(InvalidPrefix::Unusable(_))), "{refused}");
    }
    for accepted in ["203.0.113.10/32", "10.0.0.0/8", "2001:db8:f::10/128", "2001::/19", "100.64.0.0/10"] {
        assert_eq!(prefix(accepted).unwrap().to_string(), accepted);
    }
    assert_eq!(prefix("203.0.113.10/24").unwrap().to_string(), "203.0.113.0/24");
}

// shows: bgp B22
#[test]
fn jitter_stays_between_its_bounds_and_reaches_both_ends() {
    let mut random = Random::new(7);
    let whole = Duration::from_secs(10);
    let drawn: Vec<Duration> = (0..2000).map(|_| random.jitter(whole, 75, 100)).collect();
    let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
    assert!(*least >= Duration::from_millis(7500) && *least < Duration::from_millis(7550), "{least:?}");
    assert!(*most <= whole && *most > Duration::from_millis(9950), "{most:?}");
    assert_eq!(random.jitter(Duration::ZERO, 75, 100), Duration::ZERO);
}
