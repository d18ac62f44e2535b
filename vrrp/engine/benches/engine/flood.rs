//! A failover while somebody sends 50,000 adverts or questions a second.

use std::fs;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::Family;

use crate::announcements::Announcements;
use crate::case::Case;
use crate::cost::Used;
use crate::flooder::Flooder;
use crate::interop::process::{Daemon, TempDir};
use crate::measure::{WITNESS, adverts_sent, fail_over, median, settle, start};
use crate::shared::adverts::Adverts;
use crate::shared::site::{Site, ipv4, vip};
use crate::shared::{own_path, setting, tenth};

/// The argument that makes this program one that floods.
pub(crate) const ROLE: &str = "flood";
/// Its name among the cases.
pub(crate) const CASE: &str = "flood-50000";
/// A little more, so that it is not less.
const RATE: u64 = 51_000;
/// Between two bursts.
const PAUSE: Duration = Duration::from_micros(500);
/// Most adverts at once, to catch up: the kernel's queues must not lose those of the routers.
const BURST: u64 = 300;
/// For which the rate and CPU time are taken.
const LOOK: Duration = Duration::from_secs(2);
const TIMER_THREAD: &str = "windlass-vrrp";
const NEIGHBOUR_THREAD: &str = "windlass-neighb";
/// Skew and three intervals of the successor.
const BOUND: f64 = 302.3;

/// Whose adverts they pretend to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    None,
    /// A router with another VRID.
    Foreign,
    /// A router with the same VRID and the highest priority that is no peer.
    Stranger,
    /// The Active, with a lower priority.
    Active,
    /// The Backup, with a lower priority.
    Backup,
    /// ARP requests for the VIP instead of adverts, from anybody.
    Questions,
}

const KINDS: [Kind; 6] =
    [Kind::None, Kind::Foreign, Kind::Stranger, Kind::Active, Kind::Backup, Kind::Questions];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Foreign => "another VRID",
            Self::Stranger => "a stranger",
            Self::Active => "the Active's address",
            Self::Backup => "the Backup's address",
            Self::Questions => "questions for the VIP",
        }
    }

    /// What sends it from the caller's namespace.
    fn flooder(self) -> Option<Flooder> {
        match self {
            Self::None => None,
            Self::Foreign => Some(Flooder::new(ipv4(0, WITNESS), 99, 255)),
            Self::Stranger => Some(Flooder::new(ipv4(0, WITNESS), 1, 255)),
            Self::Active => Some(Flooder::new(ipv4(0, 0), 1, 100)),
            Self::Backup => Some(Flooder::new(ipv4(0, 1), 1, 100)),
            Self::Questions => match vip(Family::V4, 0, 0) {
                IpAddr::V4(target) => Some(Flooder::questions(ipv4(0, WITNESS), target)),
                IpAddr::V6(_) => None,
            },
        }
    }
}

/// Floods until it is killed.
pub(crate) fn run(arguments: &[String]) {
    let kind = KINDS.into_iter().find(|kind| arguments == [kind.name()]);
    let Some(flooder) = kind.and_then(Kind::flooder) else {
        panic!("flood: {arguments:?}: wanted is one of {KINDS:?}")
    };
    let (began, mut done) = (Instant::now(), 0);
    loop {
        let due = u64::try_from(began.elapsed().as_micros()).unwrap() * RATE / 1_000_000;
        let burst = (due - done).min(BURST);
        flooder.send(burst);
        done += burst;
        std::thread::sleep(PAUSE);
    }
}

/// The rows, one for each kind.
pub(crate) fn all() -> Vec<Value> {
    let case = Case::one_router();
    KINDS.into_iter().map(|kind| measure(case, kind)).collect()
}

fn measure(case: Case, kind: Kind) -> Value {
    let site = Site::new(3, 1);
    let scratch = TempDir::new();
    let announcements = Announcements::on(&site.hosts[WITNESS], case.family);
    let adverts = Adverts::on(&site.hosts[WITNESS], case.family);
    let mut nodes = [0, 1].map(|number| start(&site.hosts[number], &scratch, case, number));
    let (mut rates, mut taken, mut cpu) = (Vec::new(), Vec::new(), [(); 4].map(|()| Vec::new()));
    let (mut unwanted, rounds) = (0, setting("ROUNDS", 3));
    for _ in 0..rounds {
        settle(case, &site, &announcements);
        let takeovers = log(&scratch).became_active;
        let program = own_path();
        let flood = (kind != Kind::None).then(|| {
            // Ordinary, but before whatever else runs: it is to reach its rate.
            let command = ["chrt", "-o", "0", "nice", "-n", "-19", program.as_str(), ROLE, kind.name()];
            Daemon::start(&site.hosts[WITNESS], &scratch, "flood", &command)
        });
        std::thread::sleep(Duration::from_secs(1));
        let (sent, began) = (adverts_sent(&site.hosts[WITNESS]), Instant::now());
        let [active, backup] = [0, 1].map(|node: usize| nodes[node].pid());
        let threads = [
            (active, TIMER_THREAD),
            (backup, TIMER_THREAD),
            (active, NEIGHBOUR_THREAD),
            (backup, NEIGHBOUR_THREAD),
        ];
        let look = || threads.map(|(process, name)| Used::by_threads(process, |thread| thread == name));
        let before = look();
        std::thread::sleep(LOOK);
        let after = look();
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let sent = (adverts_sent(&site.hosts[WITNESS]) - sent) as f64;
        rates.push(sent / began.elapsed().as_secs_f64());
        for ((cpu, before), after) in cpu.iter_mut().zip(before).zip(after) {
            cpu.push(after.percent_since(before));
        }
        unwanted += log(&scratch).became_active - takeovers;
        taken.extend(fail_over(case, &nodes[0], &adverts, &announcements).0);
        drop(flood);
        nodes[0].sigkill();
        nodes[0] = start(&site.hosts[0], &scratch, case, 0);
    }
    let [active_cpu, backup_cpu, active_neighbour_cpu, neighbour_cpu] = cpu.map(median);
    let row = json!({
        "measure": "flood",
        "case": CASE,
        "flood": kind.name(),
        "rounds": rounds,
        "interval_ms": case.interval_ms,
        "adverts_per_second": median(rates).map(f64::round),
        "failovers": taken.len(),
        "failover_min_ms": taken.iter().copied().min_by(f64::total_cmp).map(tenth),
        "failover_median_ms": median(taken.clone()),
        "failover_max_ms": taken.iter().copied().max_by(f64::total_cmp).map(tenth),
        "bound_ms": BOUND,
        "timer_cpu_percent": active_cpu,
        "backup_timer_cpu_percent": backup_cpu,
        "neighbour_cpu_percent": active_neighbour_cpu,
        "backup_neighbour_cpu_percent": neighbour_cpu,
        "unwanted_moves": unwanted,
        "log_lines": log(&scratch).others,
    });
    println!("bench: {}", crate::report::line(&row));
    row
}

/// What the Backup told.
struct Log {
    became_active: usize,
    /// Neither of these nor of the opposite.
    others: usize,
}

fn log(scratch: &TempDir) -> Log {
    let text = fs::read_to_string(scratch.path("node1.log")).expect("what the node printed");
    let (changes, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("StateChanged"));
    let became_active = changes.iter().filter(|line| line.contains("state: Active")).count();
    Log { became_active, others: others.len() }
}
