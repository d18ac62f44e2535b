//! A pair of nodes of which one runs an earlier version of `windlass vip`: adverts contain a number, and each version classifies the other's
//! numbers by its own table.

use windlass_common::priorities;

use super::*;

/// Priority from which on an earlier version leaves an Active in place.
const EARLIER_FIT_FROM: u8 = 51;

/// State of a node, with the number that an earlier version sends for it.
struct Row {
    /// Settings beside the address and its port.
    settings: &'static str,
    lost: LostPriority,
    is_passing: bool,
    /// Priority in the adverts of an earlier version from [`SOURCE`].
    earlier: u8,
}

/// Last byte of the address from which the node of the earlier version sends.
const SOURCE: u8 = 21;

const fn row(settings: &'static str, (failing, proving): (u8, u8), is_passing: bool, earlier: u8) -> Row {
    Row { settings, lost: LostPriority { failing, proving }, is_passing, earlier }
}

const ROWS: [Row; 16] = [
    row("", (0, 0), true, 217),
    row("", (20, 0), true, 197),
    row("", (99, 0), true, 118),
    row("", (0, 100), true, 167),
    row("", (99, 100), true, 68),
    row("", (100, 0), false, 22),
    row("", (200, 0), false, 18),
    row("  priority: 200", (0, 0), true, 217),
    row("  priority: 200", (0, 100), true, 150),
    row("  priority: 200", (100, 0), false, 50),
    row("  priority: 120", (0, 0), true, 120),
    row("  priority: 120", (0, 100), true, 70),
    row("  priority: 120", (20, 0), false, 50),
    row("  priority: 101", (0, 0), true, 101),
    row("  priority: 101", (0, 100), true, 51),
    row("  priority: 101", (100, 0), false, 1),
];

/// Backup that preempts no fit node.
struct Backup {
    priority: u8,
    preempt: bool,
    fit_from: u8,
}

impl Backup {
    /// One of an earlier version that has this priority.
    fn earlier(priority: u8) -> Self {
        Self { priority, preempt: priority >= EARLIER_FIT_FROM, fit_from: EARLIER_FIT_FROM }
    }

    fn now(router: &RouterConfig) -> Self {
        assert_eq!(router.preempt_delay, NEVER);
        Self { priority: router.priority.get(), preempt: router.preempt, fit_from: router.fit_from.get() }
    }

    /// Returns true if it takes over from an Active of this priority that it receives (rfc9568 T7).
    fn takes_over_from(&self, active: u8) -> bool {
        self.preempt && active < self.priority && active < self.fit_from
    }
}

#[test]
fn a_pair_of_an_earlier_version_and_this_one_elects_as_two_of_a_kind() {
    let routers = ROWS.map(|row| running(row.settings).router(row.lost, node(START)).unwrap());
    for (backup, backups_router) in ROWS.iter().zip(&routers) {
        let given = settings(backup.settings).priority;
        let sent = priority(given, backup.lost, host(SOURCE)).get();
        assert_eq!(sent, backup.earlier, "{:?} {:?}", backup.settings, backup.lost);
        for (active, actives_router) in ROWS.iter().zip(&routers) {
            let expected = backup.is_passing && !active.is_passing;
            for (case, took_over) in [
                ("earlier Active", Backup::now(backups_router).takes_over_from(active.earlier)),
                (
                    "earlier Backup",
                    Backup::earlier(backup.earlier).takes_over_from(actives_router.priority.get()),
                ),
                ("both earlier", Backup::earlier(backup.earlier).takes_over_from(active.earlier)),
            ] {
                assert_eq!(
                    took_over, expected,
                    "{case}: {:?} {:?} from {:?} {:?}",
                    backup.settings, backup.lost, active.settings, active.lost
                );
            }
        }
    }
}

/// The reason why `windlass vip` does not elect by the table of the agents, whose Active yields below 91.
#[test]
fn the_table_of_the_agents_would_make_a_pair_of_versions_elect_wrongly() {
    let by_agents_table = |priority| Backup { priority, preempt: true, fit_from: priorities::FIT_FROM };
    let (healthy, proving, unfit) = (priorities::good(0), 70, 50);
    assert!(!Backup::earlier(217).takes_over_from(proving));
    assert!(
        by_agents_table(healthy).takes_over_from(proving),
        "the address would move though its checks pass"
    );
    let fair = priorities::fair(priorities::MOST_FAIR - 1);
    assert!(Backup::earlier(51).takes_over_from(unfit));
    assert!(!by_agents_table(fair).takes_over_from(unfit), "an unfit node would keep the address");
}
