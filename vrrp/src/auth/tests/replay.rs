use super::*;

fn sent(signer: &mut Signer, anti_replay: AntiReplay, now: WallTime) -> Image {
    Image::of(IPV4).signed(signer, anti_replay, now)
}

fn sequence(image: &Image) -> u64 {
    u64::from_be_bytes(image.trailer[4..12].try_into().unwrap())
}

/// Scenario 51.
#[test]
fn a_replayed_advert_is_refused_where_it_was_heard() {
    let image = sent(&mut Signer::default(), window(5), at(THEN));
    let (mut one, mut two) = (Verifier::default(), Verifier::default());
    assert_eq!(image.verify(&mut one, window(5), at(THEN)), Ok(()));
    assert_eq!(image.verify(&mut one, window(5), at(THEN)).unwrap_err().label(), "auth_replay");
    assert_eq!(image.verify(&mut two, window(5), at(THEN)), Ok(()));
}

#[test]
fn an_older_advert_is_refused_after_a_newer_one() {
    let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
    let first = sent(&mut signer, window(5), at(THEN));
    let second = sent(&mut signer, window(5), at(THEN));
    assert_eq!(second.verify(&mut verifier, window(5), at(THEN)), Ok(()));
    assert_eq!(first.verify(&mut verifier, window(5), at(THEN)).unwrap_err().label(), "auth_replay");
}

/// Scenario 52; the window's ends are inside.
#[test]
fn an_advert_of_another_time_is_stale() {
    for (seconds, expected) in
        [(94, Some(-6)), (95, None), (100, None), (105, None), (106, Some(6)), (200, Some(100))]
    {
        let image = sent(&mut Signer::default(), window(5), at(THEN + seconds));
        let expected = expected.map_or(Ok(()), |skew| Err(AuthError::Stale { skew, window: 5 }));
        assert_eq!(image.verify(&mut Verifier::default(), window(5), at(THEN + 100)), expected, "{seconds}");
    }
    // Stale is told before the HMAC is computed.
    let forged = Image::of(IPV4).flip(20, 1);
    assert_eq!(forged.verify(&mut Verifier::default(), window(5), at(0)).unwrap_err().label(), "auth_stale");
}

#[test]
fn clocks_that_differ_by_more_than_half_the_window_are_told() {
    for (seconds, drifting) in [(96, true), (97, true), (98, false), (102, false), (103, true)] {
        let image = sent(&mut Signer::default(), window(5), at(THEN + seconds));
        let now = at(THEN + 100);
        let verified =
            Verifier::default().verify(&ring(), window(5), image.subject(), &image.trailer, now).unwrap();
        assert_eq!(verified.drifting, drifting, "{verified:?}");
        assert_eq!(i64::from(verified.skew), i64::try_from(seconds).unwrap() - 100);
    }
}

#[test]
fn the_sequence_grows_while_the_clock_stands_or_goes_back_within_the_window() {
    for anti_replay in [window(5), AntiReplay::Monotonic] {
        let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
        for seconds in [100, 100, 99, 96, 95, 100, 101] {
            let image = sent(&mut signer, anti_replay, at(THEN + seconds));
            assert_eq!(image.verify(&mut verifier, anti_replay, at(THEN + seconds)), Ok(()), "{seconds}");
        }
    }
}

#[test]
fn a_full_counter_carries_into_the_time() {
    let mut signer = Signer::default();
    let mut last = 0;
    for _ in 0..10_000 {
        let next = sequence(&sent(&mut signer, window(5), at(THEN)));
        assert!(next > last);
        last = next;
    }
    assert_eq!(last >> 16, (THEN << 16) + 2);
}

/// Scenario 53: the clock is an hour ahead for a while. Receivers whose clocks were too took those adverts.
#[test]
fn after_a_corrected_clock_a_router_is_heard_at_once() {
    let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
    let ahead = sent(&mut signer, window(5), at(THEN + 3600));
    assert_eq!(ahead.verify(&mut verifier, window(5), at(THEN + 3600)), Ok(()));
    let corrected = sent(&mut signer, window(5), at(THEN));
    assert_eq!(sequence(&corrected) >> 32, THEN);
    assert_eq!(corrected.verify(&mut verifier, window(5), at(THEN)), Ok(()), "the mark has expired");
    assert_eq!(corrected.verify(&mut verifier, window(5), at(THEN)).unwrap_err().label(), "auth_replay");
}

/// Scenario 53, without a window: strict growth, whatever the clock does.
#[test]
fn without_a_window_the_sequence_and_the_mark_never_go_back() {
    let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
    let ahead = sent(&mut signer, AntiReplay::Monotonic, at(THEN + 3600));
    assert_eq!(ahead.verify(&mut verifier, AntiReplay::Monotonic, at(0)), Ok(()));
    let corrected = sent(&mut signer, AntiReplay::Monotonic, at(THEN));
    assert_eq!(sequence(&corrected), sequence(&ahead) + 1);
    assert_eq!(corrected.verify(&mut verifier, AntiReplay::Monotonic, at(THEN)), Ok(()));
    let other = sent(&mut Signer::default(), AntiReplay::Monotonic, at(THEN));
    assert_eq!(
        other.verify(&mut verifier, AntiReplay::Monotonic, at(THEN)).unwrap_err().label(),
        "auth_replay"
    );
}

#[test]
fn the_year_2106_is_a_second_like_any_other() {
    let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
    for seconds in [u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::from(u32::MAX) + 10] {
        let image = sent(&mut signer, window(5), at(seconds));
        assert_eq!(image.verify(&mut verifier, window(5), at(seconds)), Ok(()));
    }
}

#[test]
fn forged_sources_take_no_memory_and_the_number_of_genuine_ones_is_bounded() {
    let mut verifier = Verifier::default();
    for host in 0..=u8::MAX {
        let forged = Image { source: IpAddr::from([10, 0, 0, host]), ..Image::of(IPV4) };
        forged.verify(&mut verifier, window(5), at(THEN)).unwrap_err();
    }
    assert_eq!(verifier.sources(), 0);
    let genuine = |host: u32, seconds: u64| {
        let source = IpAddr::V4((0x0a00_0000 + host).into());
        let image = Image { source, ..Image::of(IPV4) };
        image.signed(&mut Signer::default(), AntiReplay::Monotonic, at(seconds))
    };
    for host in 0..1000 {
        genuine(host, THEN).verify(&mut verifier, AntiReplay::Monotonic, at(THEN)).unwrap();
    }
    assert_eq!(verifier.sources(), Verifier::SOURCES);
    // Those not heard for longest made room.
    let replayed = genuine(999, THEN).verify(&mut verifier, AntiReplay::Monotonic, at(THEN));
    assert_eq!(replayed.unwrap_err().label(), "auth_replay");
    // Marks outside the window are forgotten.
    genuine(0, THEN + 100).verify(&mut verifier, window(5), at(THEN + 100)).unwrap();
    assert_eq!(verifier.sources(), 1);
}

/// An advert from before the correction can be replayed when its time comes: it must not be one that was sent again.
#[test]
fn instants_lived_through_twice_have_different_sequences() {
    let mut signer = Signer::default();
    let mut used = BTreeSet::new();
    for seconds in [0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20, 30] {
        assert!(used.insert(sequence(&sent(&mut signer, window(5), at(THEN + seconds)))), "{seconds}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))] // 2.1 ms each

    /// The clock jumps between spells in which it wavers by less than the window: at most 15 jumps are followed back.
    #[test]
    fn no_sequence_is_used_twice_whatever_the_clock_does(
        spells in proptest::collection::vec((0..40_000_u64, proptest::collection::vec(0..2000_u64, 0..20)), 0..=16),
    ) {
        let mut signer = Signer::default();
        let mut used = BTreeSet::new();
        for (start, wavering) in spells {
            for millis in wavering {
                let image = sent(&mut signer, window(5), at_millis(THEN * 1000 + start + millis));
                prop_assert!(used.insert(sequence(&image)));
            }
        }
    }

    /// What matters: at each instant a receiver with the same clock takes the next advert, so that no Backup takes over.
    #[test]
    fn whatever_the_clock_does_the_next_advert_is_taken(
        millis in proptest::collection::vec(0..100_000_u64, 0..100),
        seconds in 1..=30_u64,
    ) {
        let (mut signer, mut verifier) = (Signer::default(), Verifier::default());
        for millis in millis {
            let now = at_millis(THEN * 1000 + millis);
            prop_assert_eq!(sent(&mut signer, window(seconds), now).verify(&mut verifier, window(seconds), now), Ok(()));
        }
    }
}
