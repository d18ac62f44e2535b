use super::*;
use crate::connections::Transport;

fn connection(port: u16) -> Connection {
    Connection {
        key: ConnectionKey {
            transport: Transport::Tcp,
            client: ([192, 0, 2, 3], port).into(),
            vip: ([192, 0, 2, 50], 80).into(),
        },
        backend: ([192, 0, 2, 4], 8080).into(),
        source: ([192, 0, 2, 50], port).into(),
    }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn aging(most_young: usize, most_old: usize) -> Aging {
    Aging::new(AgingLimits { most_young, most_old, ..AgingLimits::default() })
}

fn due(aging: &mut Aging, millis: u64) -> Vec<u16> {
    std::iter::from_fn(|| aging.due(at(millis))).map(|connection| connection.key.client.port()).collect()
}

#[test]
fn a_connection_is_told_once_when_it_has_lasted_and_its_end_once() {
    let mut aging = aging(8, 8);
    assert_eq!(aging.next(), None);
    assert_eq!(aging.hear(&Event::Established(connection(1)), at(0)), None);
    assert_eq!(aging.hear(&Event::Established(connection(2)), at(500)), None);
    // Heard again, as when the kernel tells of it twice.
    aging.hear(&Event::Established(connection(1)), at(600));
    assert_eq!(aging.next(), Some(at(1000)));
    assert_eq!(due(&mut aging, 999), []);
    assert_eq!(due(&mut aging, 1000), [1]);
    aging.hear(&Event::Established(connection(1)), at(1100));
    assert_eq!(due(&mut aging, 9000), [2]);
    assert_eq!(aging.counts(), (2, 0));
    assert_eq!(aging.hear(&Event::Ended(connection(1).key), at(9000)), Some(connection(1).key));
    assert_eq!(aging.hear(&Event::Ended(connection(1).key), at(9000)), None);
    assert!(!aging.take_overflow());
}

#[test]
fn one_that_ends_before_is_never_told() {
    let mut aging = aging(8, 8);
    aging.hear(&Event::Established(connection(1)), at(0));
    assert_eq!(aging.hear(&Event::Ended(connection(1).key), at(900)), None);
    assert_eq!(due(&mut aging, 1000), []);
    assert_eq!(aging.counts(), (0, 0));
    assert_eq!(aging.next(), None);
}

#[test]
fn the_next_one_from_a_port_lasts_from_its_own_beginning() {
    let mut aging = aging(8, 8);
    aging.hear(&Event::Established(connection(1)), at(0));
    aging.hear(&Event::Ended(connection(1).key), at(100));
    aging.hear(&Event::Established(connection(1)), at(200));
    assert_eq!(due(&mut aging, 1100), []);
    assert_eq!(due(&mut aging, 1200), [1]);
}

#[test]
fn what_there_is_no_room_for_is_told_by_an_overflow() {
    let mut aging = aging(2, 1);
    for port in 1..=3 {
        aging.hear(&Event::Established(connection(port)), at(0));
    }
    assert!(aging.take_overflow(), "a third young one");
    assert!(!aging.take_overflow());
    assert_eq!(due(&mut aging, 1000), [1]);
    assert!(!aging.take_overflow(), "a second old one, for which a list would have no room either");
    aging.hear(&Event::Lost, at(1000));
    assert!(aging.take_overflow());
}

#[test]
fn memory_is_bounded_however_fast_connections_begin_and_end() {
    let mut aging = aging(100, 8);
    for port in 1..=5000 {
        aging.hear(&Event::Established(connection(port)), at(0));
        aging.hear(&Event::Ended(connection(port).key), at(0));
    }
    assert!(aging.queue.len() <= 100 && aging.young.is_empty());
}

#[test]
fn a_list_takes_the_place_of_what_was_heard() {
    let mut aging = aging(8, 8);
    aging.hear(&Event::Established(connection(1)), at(0));
    aging.hear(&Event::Lost, at(0));
    aging.relist(&[connection(2).key]);
    assert!(!aging.take_overflow());
    assert_eq!(due(&mut aging, 5000), [], "it was listed or is over");
    aging.hear(&Event::Established(connection(2)), at(5000));
    assert_eq!(due(&mut aging, 9000), [], "it was told by the list");
    assert_eq!(aging.hear(&Event::Ended(connection(2).key), at(9000)), Some(connection(2).key));
}

#[test]
fn one_that_is_half_closed_is_looked_at_until_it_has_ended() {
    let mut aging = aging(8, 8);
    for port in 1..=2 {
        aging.hear(&Event::Established(connection(port)), at(0));
    }
    assert_eq!(aging.hear(&Event::Closing(connection(2).key), at(500)), None);
    assert_eq!(due(&mut aging, 1000), [1], "the other ended young, most likely");
    let key = connection(1).key;
    assert_eq!(aging.hear(&Event::Closing(key), at(2000)), None);
    assert_eq!((aging.next(), aging.to_look_at(at(2199))), (Some(at(2200)), None));
    assert_eq!(aging.to_look_at(at(2200)), Some(key));
    assert_eq!(aging.looked_at(&key, true, at(2200)), None);
    assert_eq!((aging.next(), aging.to_look_at(at(7199))), (Some(at(7200)), None));
    assert_eq!(aging.to_look_at(at(7200)), Some(key));
    assert_eq!(aging.looked_at(&key, false, at(7200)), Some(key));
    assert_eq!((aging.next(), aging.counts()), (None, (0, 0)));

    aging.hear(&Event::Established(connection(3)), at(20_000));
    assert_eq!(due(&mut aging, 21_000), [3]);
    aging.hear(&Event::Closing(connection(3).key), at(22_000));
    assert_eq!(aging.hear(&Event::Ended(connection(3).key), at(22_001)), Some(connection(3).key));
    assert_eq!(aging.to_look_at(at(40_000)), None, "it has ended already");
}

#[test]
fn one_that_closes_while_another_is_half_closed_does_not_wait_for_it() {
    let mut aging = aging(8, 8);
    for port in 1..=2 {
        aging.hear(&Event::Established(connection(port)), at(0));
    }
    assert_eq!(due(&mut aging, 1000), [1, 2]);
    let [first, second] = [1, 2].map(|port| connection(port).key);
    aging.hear(&Event::Closing(first), at(2000));
    assert_eq!(aging.to_look_at(at(2200)), Some(first));
    aging.looked_at(&first, true, at(2200));
    aging.hear(&Event::Closing(second), at(3000));
    assert_eq!(aging.to_look_at(at(3200)), Some(second));
    assert_eq!(aging.to_look_at(at(3200)), None);
}

#[test]
fn of_more_that_are_half_closed_than_there_is_room_for_the_end_is_told() {
    let mut aging = aging(2, 8);
    for port in 1..=3 {
        aging.hear(&Event::Established(connection(port)), at(u64::from(port) * 2000));
        assert_eq!(due(&mut aging, u64::from(port) * 2000 + 1000), [port]);
    }
    for port in 1..=2 {
        assert_eq!(aging.hear(&Event::Closing(connection(port).key), at(8000)), None);
    }
    assert_eq!(aging.hear(&Event::Closing(connection(3).key), at(8000)), Some(connection(3).key));
}
