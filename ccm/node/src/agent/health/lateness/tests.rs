use proptest::prelude::*;

use super::*;

const INTERVAL: u32 = 100;

/// What is said each second from the start, of these latenesses in milliseconds: `-` nothing, `b` that it fails where the node is
/// a Backup, `a` that it does where it is Active, too.
fn told(interval: u32, latenesses: impl IntoIterator<Item = u64>) -> String {
    let (begin, mut lateness) = (Instant::now(), Lateness::default());
    let mut now = begin;
    let second = |late: u64| {
        now += EVERY;
        lateness.note(&[interval].into(), Duration::from_millis(late), now);
        match lateness.failed().get(&interval) {
            None => '-',
            Some(failed) if failed.spares_active => 'b',
            Some(_) => 'a',
        }
    };
    latenesses.into_iter().map(second).collect()
}

#[test]
fn lateness_counts_from_half_of_the_room_that_backups_leave_and_if_it_comes_again_and_again() {
    let rows: [(&str, u32, &[u64], &str); 10] = [
        ("as benchmarks have it under load", 100, &[34; 10], "----------"),
        ("a third of an interval is nothing", 30, &[10; 10], "----------"),
        ("a virtual machine stood still", 100, &[700, 0, 0, 0, 0], "-----"),
        ("twice", 100, &[700, 700, 0, 0, 0], "-----"),
        ("as late as Backups leave room for", 100, &[200; 7], "--bbbaa"),
        ("as late as an interval", 100, &[100; 7], "--bbbbb"),
        ("three quarters as late", 100, &[75; 7], "-------"),
        ("a little later than that", 100, &[76; 7], "--bbbbb"),
        ("every other second", 100, &[150, 0, 150, 0, 150, 0, 150, 0, 150, 0, 150, 0], "----bbbbbbbb"),
        ("longer intervals", 1000, &[400; 7], "-------"),
    ];
    for (what, interval, latenesses, expected) in rows {
        assert_eq!(told(interval, latenesses.iter().copied()), expected, "{what}");
    }
}

#[test]
fn a_late_node_is_unfit_for_a_minute_and_one_that_announces_nothing_for_two() {
    let told = told(INTERVAL, [[150; 20].as_slice(), &[0; 140]].concat());
    let (as_active, as_backup) = (told.matches('a').count(), told.matches(['a', 'b']).count());
    // From the sixth late second, and from the third.
    assert_eq!((as_active, as_backup), (60, 120), "{told}");
    assert!(told.ends_with('-'), "{told}");
}

#[test]
fn an_interval_is_judged_by_itself_and_forgotten_with_its_routers() {
    let (begin, mut lateness) = (Instant::now(), Lateness::default());
    for second in 0..3 {
        lateness.note(&[100, 1000].into(), Duration::from_millis(150), begin + EVERY * second);
    }
    let failed = lateness.failed();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&100]);
    assert!(
        failed[&100].reason.starts_with("it was 150 ms late, and too late in 3 of 12 seconds"),
        "{failed:?}"
    );
    lateness.note(&[1000].into(), Duration::ZERO, begin + EVERY * 3);
    lateness.note(&[100].into(), Duration::ZERO, begin + EVERY * 4);
    assert!(lateness.failed().is_empty());
}

/// Nodes that are held up at the same moments: each asks once a second at its own moment, and its timers are due at its own.
struct Nodes {
    lateness: Vec<Lateness>,
    recent: Vec<Duration>,
}

proptest! {
    #[test]
    fn what_holds_up_all_nodes_alike_moves_nothing(
        phases in prop::collection::vec(0..100u64, 2..5),
        stalls in prop::collection::vec((50..3000u64, 0..250u64, prop::collection::vec(0..u64::from(INTERVAL) / 4, 5)), 1..120),
    ) {
        let begin = Instant::now();
        let mut nodes = Nodes {
            lateness: phases.iter().map(|_| Lateness::default()).collect(),
            recent: vec![Duration::ZERO; phases.len()],
        };
        // When what has held all up ends, and how late each node is for it.
        let mut end = 0;
        let mut ends: VecDeque<(u64, Vec<u64>)> = VecDeque::new();
        for (gap, duration, dues) in stalls {
            end += gap + duration;
            ends.push_back((end, dues.iter().map(|due| duration.saturating_sub(*due)).collect()));
        }
        let fails = |lateness: &Lateness, is_active: bool| {
            lateness.failed().get(&INTERVAL).is_some_and(|failed| !(is_active && failed.spares_active))
        };
        for now in (0..end + 200_000).step_by(10) {
            while ends.front().is_some_and(|(end, _)| *end <= now) {
                let (_, late) = ends.pop_front().expect("one");
                for (recent, late) in nodes.recent.iter_mut().zip(late) {
                    *recent = (*recent).max(Duration::from_millis(late));
                }
            }
            for (node, phase) in phases.iter().enumerate() {
                if now % 1000 == *phase * 10 {
                    let recent = std::mem::take(&mut nodes.recent[node]);
                    nodes.lateness[node].note(&[INTERVAL].into(), recent, begin + Duration::from_millis(now));
                }
            }
            // Whichever is Active stays: it is well, or no other is.
            if now % 100 == 0 && fails(&nodes.lateness[0], true) {
                prop_assert!(nodes.lateness[1..].iter().all(|other| fails(other, false)), "at {now}");
            }
        }
    }
}
