//! Who yields to whom, and that no two routers provoke each other without end.

use proptest::prelude::*;

use super::*;

// shows: rfc9568 R13, T23
/// Erratum 8298: an owner listens to another owner; the higher address stays.
#[test]
fn of_two_owners_the_one_with_the_lower_address_yields() {
    let owner = Config { priority: Priority::OWNER, ..config() };
    let mut yielding = router(State::Active, owner.clone(), START);
    assert_eq!(yielding.handle_advert(advert(HIGHER, 255, 1000), START), AdvertOutcome::Obeyed);
    assert_eq!(yielding.state(), State::Backup);
    let mut staying = router(State::Active, owner, START);
    assert_eq!(staying.handle_advert(advert(LOWER, 255, 1000), START), AdvertOutcome::Inferior);
    assert_eq!(staying.state(), State::Active);
}

// shows: rfc9568 T12
/// Addresses compare as unsigned numbers in network order, not as text and not octet by octet signed.
#[test]
fn addresses_break_ties_as_unsigned_numbers() {
    let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
    for (lower, higher) in [
        (v6("9.0.0.1"), v6("10.0.0.1")),
        (v6("127.255.255.255"), v6("128.0.0.0")),
        (v6("192.0.2.9"), v6("192.0.2.10")),
        (v6("fe80::9"), v6("fe80::10")),
        (v6("fe80::7fff"), v6("fe80::8000")),
    ] {
        let own = Config { primary: lower, peers: [higher].into(), ..config() };
        let mut yielding = router(State::Active, own, START);
        yielding.handle_advert(advert(higher, 100, 1000), START);
        assert_eq!(yielding.state(), State::Backup, "{lower} to {higher}");
        let own = Config { primary: higher, peers: [lower].into(), ..config() };
        let mut staying = router(State::Active, own, START);
        staying.handle_advert(advert(lower, 100, 1000), START);
        assert_eq!(staying.state(), State::Active, "{higher} before {lower}");
    }
}

#[test]
fn a_changed_primary_address_decides_the_next_tie() {
    let mut router = router(State::Active, config(), START);
    let primary = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 21));
    router.reconfigure(Config { primary, ..config() }, START);
    assert_eq!(router.handle_advert(advert(HIGHER, 100, 1000), START), AdvertOutcome::Inferior);
    assert_eq!(router.handle_advert(advert(primary, 100, 1000), START), AdvertOutcome::OwnAddress);
}

// shows: rfc9568 T13
/// A peer that does not hear us and advertises every 10 ms gets an advert for an advert, twice, and then those that are due.
#[test]
fn a_deaf_peer_gets_two_answers_between_adverts_that_are_due_and_nothing_more() {
    let mut router = router(State::Active, config(), START);
    let (mut answers, mut due) = (0, 0);
    for tick in 1..=1000 {
        let now = START + millis(10 * tick);
        router.handle_timeout(now);
        due += actions(&mut router).len();
        router.handle_advert(advert(LOWER, 99, 10), now);
        let answer = actions(&mut router);
        assert!(answer.is_empty() || answer == ["advert 100", "announce again"], "{answer:?}");
        answers += usize::from(!answer.is_empty());
    }
    // Each answer starts the timer anew: one that is due comes a second after the second of them, 1.02 s after the last that was.
    assert_eq!((due, answers), (9, 20));
}

/// The queue of actions, and the memory of peers, have room for all that one input can bring.
#[test]
fn adverts_and_timers_allocate_nothing() {
    let both = Config { versions: Versions::V2AndV3, ..config() };
    let mut router = router(State::Backup, both, START);
    let room = |r: &Router| (r.actions.capacity(), r.upgraded.capacity());
    let before = room(&router);
    let mut now = START;
    for round in 0..2000_u32 {
        now = router.poll_timeout().unwrap_or(now);
        let late = [0, 1, 3000, 20_000][round as usize % 4];
        router.handle_timeout(now + millis(late));
        let value = [0, 50, 100, 200][round as usize / 4 % 4];
        let version = [Version::V3, Version::V2][round as usize / 16 % 2];
        let source = [LOWER, HIGHER][round as usize / 32 % 2];
        now = now + millis(late);
        router.handle_advert(ReceivedAdvert { version, ..advert(source, value, 1000) }, now);
        assert!(router.actions.len() <= MAX_ACTIONS * 2);
        while router.poll_action().is_some() {}
    }
    // Two inputs between drains at most, so the queue may have doubled once.
    assert!(room(&router).0 <= before.0 * 2 && room(&router).1 == before.1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.031 ms each

    // shows: rfc9568 T12
    /// T12 and T13 over all pairs: of two Actives that hear each other exactly one yields, and after that nothing is
    /// answered any more. So two routers never both think that they win, and cannot storm each other.
    #[test]
    fn of_two_actives_exactly_one_yields(
        a in (1..=255_u8, 1..=254_u8), b in (1..=255_u8, 1..=254_u8), preempt in any::<bool>(),
    ) {
        prop_assume!(a.1 != b.1);
        let at = |host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
        let active = |own: (u8, u8), peer: (u8, u8)| {
            let config = Config {
                priority: priority(own.0), primary: at(own.1), peers: [at(peer.1)].into(), preempt, ..config()
            };
            router(State::Active, config, START)
        };
        let (mut first, mut second) = (active(a, b), active(b, a));
        // Both have just sent an advert; every advert sent is delivered to the other.
        let mut under_way = vec![(true, priority(a.0)), (false, priority(b.0))];
        let mut delivered = 0;
        while let Some((from_first, value)) = under_way.pop() {
            delivered += 1;
            prop_assert!(delivered <= 6, "adverts without end");
            let (to, source) = if from_first { (&mut second, at(a.1)) } else { (&mut first, at(b.1)) };
            to.handle_advert(advert(source, value.get(), 1000), START);
            while let Some(action) = to.poll_action() {
                if let Action::SendAdvert { priority: Some(value) } = action {
                    under_way.insert(0, (!from_first, value));
                }
            }
        }
        let expected = if a > b { (State::Active, State::Backup) } else { (State::Backup, State::Active) };
        prop_assert_eq!((first.state(), second.state()), expected);
    }
}
