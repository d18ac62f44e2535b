use windlass_kernel::connections::Transport;

use super::*;

fn connection(port: u16, source: u16) -> Connection {
    let vip = IpAddr::from([192, 0, 2, 50]);
    let key = ConnectionKey {
        transport: Transport::Tcp,
        client: ([192, 0, 2, 3], port).into(),
        vip: (vip, 80).into(),
    };
    Connection { key, backend: ([192, 0, 2, 4], 8080).into(), source: (vip, source).into() }
}

#[test]
fn a_clients_port_that_comes_round_again_ends_what_was_there_if_that_is_another() {
    let mut known = Connections::default();
    known.put(connection(1, 5000)).unwrap();
    let key = connection(1, 5000).key;
    for (event, expected) in [
        (Event::Established(connection(1, 6000)), Some(key)),
        (Event::Established(connection(1, 5000)), None),
        (Event::Established(connection(2, 5000)), None),
        (Event::Closing(key), None),
        (Event::Ended(key), None),
        (Event::Lost, None),
    ] {
        assert_eq!(former(&event, &known), expected, "{event:?}");
    }
}

/// The first is half-closed for all that was heard when its port comes round again.
#[test]
fn the_next_one_from_a_port_is_told_in_place_of_the_former() {
    let mut aging = Aging::new(AgingLimits::default());
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    let (first, next) = (connection(1, 5000), connection(1, 6000));
    let mut known = Connections::default();
    aging.hear(&Event::Established(first), at(0));
    assert_eq!(aging.due(at(1000)), Some(first));
    known.put(first).unwrap();
    aging.hear(&Event::Closing(first.key), at(2000));
    let over = former(&Event::Established(next), &known).expect("it is over");
    assert_eq!(aging.hear(&Event::Ended(over), at(2100)), Some(first.key));
    aging.hear(&Event::Established(next), at(2100));
    assert_eq!(aging.due(at(3100)), Some(next));
}

/// A million entries take a second or more to list.
#[test]
fn lists_take_a_fiftieth_of_the_time_at_most_however_much_there_is_to_list() {
    for (took, expected) in [(0, 5000), (35, 5000), (100, 5000), (200, 10_000), (2000, 100_000)] {
        let took = Duration::from_millis(took);
        assert_eq!(pause(OVERLOAD_INTERVAL, took), Duration::from_millis(expected), "{took:?}");
        assert!(pause(LIST_INTERVAL, took) >= LIST_INTERVAL);
    }
    assert_eq!(pause(LIST_INTERVAL, Duration::MAX), Duration::MAX);
}
