use super::*;

fn check(interfaces: &[&str], minimum: Option<u32>, megabits: Option<u32>) -> LinkCheck {
    LinkCheck {
        interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
        minimum,
        minimum_megabits_per_second: megabits,
    }
}

#[test]
fn enough_links_have_carrier_and_are_fast_enough_or_it_is_said_which_are_not() {
    let up = |name: &str, speed: u32| HostLink::new(name, true, Some(speed));
    let down = |name: &str| HostLink::new(name, false, None);
    let node = [up("eth0", 1000), up("ens1", 10_000), down("ens2"), HostLink::new("tun0", true, None)];
    let rows: [(&str, LinkCheck, Option<&str>); 16] = [
        ("one with carrier", check(&["eth0"], None, None), None),
        ("one without", check(&["ens2"], None, None), Some("0 links have carrier, and 1 are to; not ens2")),
        (
            "one that is not there",
            check(&["ens9"], None, None),
            Some("0 links have carrier, and 1 are to; not ens9"),
        ),
        ("all of two", check(&["eth0", "ens1"], None, None), None),
        ("not all", check(&["eth0", "ens2"], None, None), Some("1 link has carrier, and 2 are to; not ens2")),
        ("enough", check(&["eth0", "ens2"], Some(1), None), None),
        ("one of a pattern", check(&["ens*"], Some(1), None), None),
        (
            "not all of a pattern",
            check(&["ens*"], None, None),
            Some("1 link has carrier, and 2 are to; not ens2"),
        ),
        ("a pattern of none", check(&["bond*"], Some(1), None), Some("the node has no such interface")),
        ("a pattern of none and one", check(&["bond*", "eth0"], None, None), None),
        ("more than there are", check(&["eth0"], Some(2), None), Some("1 link has carrier, and 2 are to")),
        ("twice the same", check(&["eth*", "eth0"], Some(2), None), Some("1 link has carrier, and 2 are to")),
        ("fast enough", check(&["eth0", "ens1"], None, Some(11_000)), None),
        (
            "too slow",
            check(&["eth0", "ens1"], None, Some(11_001)),
            Some("ens1, eth0: 11000 Mbit/s, and 11001 are wanted"),
        ),
        (
            "too slow without the one that is down",
            check(&["ens*"], Some(1), Some(20_000)),
            Some("ens1: 10000 Mbit/s, and 20000 are wanted"),
        ),
        ("of a speed that is not known", check(&["eth0", "tun0"], None, Some(40_000)), None),
    ];
    for (what, check, expected) in rows {
        let expected = expected.map_or(Finding::Passed, |why| Finding::Failed(why.to_owned()));
        assert_eq!(judge(&check, &node), expected, "{what}");
    }
}

#[test]
fn of_many_links_some_are_named() {
    let links: Vec<HostLink> =
        (0..300).map(|nth| HostLink::new(&format!("eth{nth:03}"), false, None)).collect();
    let Finding::Failed(why) = judge(&check(&["eth*"], Some(1), None), &links) else {
        panic!("none carries")
    };
    assert!(why.ends_with(", eth007 and 292 more"), "{why}");
}

#[tokio::test]
async fn the_kernel_is_asked() {
    assert_eq!(look(check(&["lo"], None, None)).await, Finding::Passed);
    let missing = "1 link has carrier, and 2 are to; not nowhere0".to_owned();
    assert_eq!(look(check(&["lo", "nowhere0"], None, None)).await, Finding::Failed(missing));
}
