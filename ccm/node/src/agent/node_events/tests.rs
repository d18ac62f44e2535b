use super::*;

fn fault(reason: &'static str, interface: &str, about: Option<&str>) -> FaultId {
    (reason, interface.to_owned(), about.map(|address| address.parse().unwrap()))
}

#[test]
fn a_fault_is_told_once_in_ten_minutes_and_each_by_itself() {
    let (mut told, start) = (Told::default(), Instant::now());
    let minutes = |minutes: u64| start + Duration::from_mins(minutes);
    let faults = [
        fault(node_event::SOURCE_IN_USE, "eth0", None),
        fault(node_event::SOURCE_IN_USE, "eth1", None),
        fault(node_event::CLOCKS_DIFFER, "eth0", Some("192.0.2.11")),
        fault(node_event::CLOCKS_DIFFER, "eth0", Some("192.0.2.12")),
    ];
    for one in &faults {
        assert!(told.is_news(one.clone(), start), "{one:?}");
    }
    for minute in 1..10 {
        for one in &faults {
            assert!(!told.is_news(one.clone(), minutes(minute)), "{one:?} after {minute} minutes");
        }
    }
    assert!(told.is_news(faults[0].clone(), minutes(10)));
    assert!(!told.is_news(faults[0].clone(), minutes(11)), "counted from when it was told last");
}

#[test]
fn a_flood_of_faults_is_told_in_part() {
    let (mut told, start) = (Told::default(), Instant::now());
    let one = |n: usize| fault(node_event::ADVERTS_NOT_AUTHENTIC, "eth0", Some(&format!("2001:db8::{n:x}")));
    assert_eq!((0..10_000).filter(|n| told.is_news(one(*n), start)).count(), MOST);
    assert!(told.is_news(one(9_999), start + AGAIN), "once the others are old");
}

#[test]
fn what_becomes_of_held_addresses_is_said_with_how_many_and_for_how_long() {
    let time = Duration::from_mins(10);
    for (news, kind, reason, words) in [
        (
            News::Held { addresses: 3, of: 4 },
            EventType::Warning,
            "AddressesHeld",
            ["3 of this node's 4", "for 600 s", "stop its agent"].as_slice(),
        ),
        (News::Back, EventType::Normal, "AddressesBack", &["are back"]),
        (News::Over { addresses: 3 }, EventType::Warning, "AddressesGivenUp", &["3 addresses", "600 s"]),
    ] {
        let (said_kind, said_reason, message) = of_hold(news, time);
        assert_eq!((said_kind, said_reason), (kind, reason));
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn of_many_peers_that_multicast_does_not_reach_a_few_are_named() {
    let peers = (1..=7).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let message = of_multicast("eth0", &peers);
    let words =
        ["on eth0", "192.0.2.1, 192.0.2.2", "192.0.2.5 and 2 more", "unicast takes its place", "Unicast"];
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(!of_multicast("eth0", &[IpAddr::from([192, 0, 2, 1])].into()).contains("more"));
}
