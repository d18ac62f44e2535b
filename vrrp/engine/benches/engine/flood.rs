//! The adverts of an Active, and a failover, while a third host sends 50,000 or 300,000 adverts or questions a second.

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::Family;
use windlass_engine::auth::{AntiReplay, Signer};
use windlass_kernel::clock;
use windlass_vrrp::Version;
use windlass_vrrp::wire::{Advert, Checksum, GROUP_V4, TTL};

use crate::announcements::Announcements;
use crate::case::Case;
use crate::cost::Used;
use crate::flooder::{Flooder, advert};
use crate::interop::process::{Daemon, TempDir};
use crate::measure::{WITNESS, adverts_sent, fail_over, median, settle, start};
use crate::routers::keyring;
use crate::shared::adverts::Adverts;
use crate::shared::site::{Site, ipv4, source, vip};
use crate::shared::{own_path, setting, tenth};

/// The argument that makes this program one that floods.
pub(crate) const ROLE: &str = "flood";
/// Names among the cases, and packets a second: a little more, so that it is not less.
pub(crate) const CASES: [(&str, u64); 2] = [("flood-50000", 51_000), ("flood-300000", 306_000)];
/// Between two bursts.
const PAUSE: Duration = Duration::from_micros(500);
/// Most adverts of a thread at once, to catch up: the kernel's queues must not lose those of the routers.
const BURST: usize = 300;
/// For which the rate and CPU time are taken.
const LOOK: Duration = Duration::from_secs(2);
const TIMER_THREAD: &str = "windlass-vrrp";
const NEIGHBOUR_THREAD: &str = "windlass-neighb";
/// Skew and three intervals of the successor: most time without an advert that moves no address.
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
    /// The Active, with the highest priority, from beyond a router: the TTL is not 255.
    WrongTtl,
    /// The Active, with the highest priority, signed with another key. The nodes require authentication.
    WrongKey,
    /// ARP requests for the VIP instead of adverts, from anybody.
    Questions,
}

const KINDS: [Kind; 8] = [
    Kind::None,
    Kind::Foreign,
    Kind::Stranger,
    Kind::Active,
    Kind::Backup,
    Kind::WrongTtl,
    Kind::WrongKey,
    Kind::Questions,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Foreign => "another VRID",
            Self::Stranger => "a stranger",
            Self::Active => "the Active's address",
            Self::Backup => "the Backup's address",
            Self::WrongTtl => "the Active's address, wrong TTL",
            Self::WrongKey => "the Active's address, wrong key",
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
            Self::WrongTtl => {
                let advert = Advert { ttl: TTL - 1, ..advert(ipv4(0, 0), 1, 255) };
                Some(Flooder::datagrams(GROUP_V4, advert.datagram(Version::V3, Checksum::Rfc9568)))
            }
            Self::WrongKey => {
                let (advert, mut signer, keys) = (advert(ipv4(0, 0), 1, 255), Signer::default(), keyring(2));
                let datagram = advert.signed_datagram(Version::V3, Checksum::Rfc9568, |data| {
                    Some(signer.sign(&keys, AntiReplay::Monotonic, data, clock::wall()))
                });
                Some(Flooder::datagrams(GROUP_V4, datagram))
            }
            Self::Questions => match vip(Family::V4, 0, 0) {
                IpAddr::V4(target) => Some(Flooder::questions(ipv4(0, WITNESS), target)),
                IpAddr::V6(_) => None,
            },
        }
    }
}

/// Floods until it is killed.
pub(crate) fn run(arguments: &[String]) {
    let [name, rate] = arguments else { panic!("flood: {arguments:?}: wanted are a kind and a rate") };
    let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == name) else {
        panic!("flood: {name}: wanted is one of {KINDS:?}")
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let rate = rate.parse::<usize>().unwrap() / threads;
    thread::scope(|scope| {
        for _ in 0..threads {
            let flooder = kind.flooder().expect("something to send");
            scope.spawn(move || flood(&flooder, rate));
        }
    });
}

/// Sends so many a second.
fn flood(flooder: &Flooder, rate: usize) {
    let (began, mut done) = (Instant::now(), 0);
    loop {
        let due = usize::try_from(began.elapsed().as_micros()).unwrap() * rate / 1_000_000;
        let burst = (due - done).min(BURST);
        flooder.send(burst);
        done += burst;
        thread::sleep(PAUSE);
    }
}

/// The rows, one for each kind.
pub(crate) fn all(name: &str, rate: u64) -> Vec<Value> {
    KINDS.into_iter().map(|kind| measure(name, rate, kind)).collect()
}

fn measure(name: &str, rate: u64, kind: Kind) -> Value {
    let case = Case { authenticated: kind == Kind::WrongKey, ..Case::one_router() };
    let site = Site::new(3, 1);
    let scratch = TempDir::new();
    let announcements = Announcements::on(&site.hosts[WITNESS], case.family);
    let adverts = Adverts::on(&site.hosts[WITNESS], case.family);
    let mut nodes = [0, 1].map(|number| start(&site.hosts[number], &scratch, case, number));
    let (mut rates, mut taken, mut cpu) = (Vec::new(), Vec::new(), [(); 4].map(|()| Vec::new()));
    let (mut unwanted, mut gaps, rounds) = (0, Vec::new(), setting("ROUNDS", 3));
    for _ in 0..rounds {
        settle(case, &site, &announcements);
        let changes = || [0, 1].map(|node| log(&scratch, node).changes).iter().sum::<usize>();
        let before_flood = changes();
        let program = own_path();
        let flood = (kind != Kind::None).then(|| {
            // Ordinary, but before whatever else runs: it is to reach its rate.
            let mut command = vec!["chrt", "-o", "0", "nice", "-n", "-19", program.as_str(), ROLE];
            let rate = rate.to_string();
            command.extend([kind.name(), &rate]);
            Daemon::start(&site.hosts[WITNESS], &scratch, "flood", &command)
        });
        thread::sleep(Duration::from_secs(1));
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
        gaps.push(longest_gap(&adverts, began + LOOK));
        let after = look();
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let sent = (adverts_sent(&site.hosts[WITNESS]) - sent) as f64;
        rates.push(sent / began.elapsed().as_secs_f64());
        for ((cpu, before), after) in cpu.iter_mut().zip(before).zip(after) {
            cpu.push(after.percent_since(before));
        }
        unwanted += changes() - before_flood;
        taken.extend(fail_over(case, &nodes[0], &adverts, &announcements).0);
        drop(flood);
        nodes[0].sigkill();
        nodes[0] = start(&site.hosts[0], &scratch, case, 0);
    }
    let [active_cpu, backup_cpu, active_neighbour_cpu, neighbour_cpu] = cpu.map(median);
    let row = json!({
        "measure": "flood",
        "case": name,
        "flood": kind.name(),
        "rounds": rounds,
        "interval_ms": case.interval_ms,
        "adverts_per_second": median(rates).map(f64::round),
        "failovers": taken.len(),
        "failover_min_ms": taken.iter().copied().min_by(f64::total_cmp).map(tenth),
        "failover_median_ms": median(taken.clone()),
        "failover_max_ms": taken.iter().copied().max_by(f64::total_cmp).map(tenth),
        "bound_ms": BOUND,
        "longest_advert_gap_ms": gaps.into_iter().max_by(f64::total_cmp).map(tenth),
        "timer_cpu_percent": active_cpu,
        "backup_timer_cpu_percent": backup_cpu,
        "neighbour_cpu_percent": active_neighbour_cpu,
        "backup_neighbour_cpu_percent": neighbour_cpu,
        "unwanted_moves": unwanted,
        "log_lines": log(&scratch, 1).others,
    });
    println!("bench: {}", crate::report::line(&row));
    row
}

/// Longest time, in milliseconds, without an advert of the Active, until the deadline.
fn longest_gap(adverts: &Adverts, deadline: Instant) -> f64 {
    adverts.forget();
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while let Some(heard) = adverts.next(deadline) {
        if heard.source == source(Family::V4, 0) {
            longest = longest.max(heard.at - last);
            last = heard.at;
        }
    }
    longest.max(deadline.saturating_duration_since(last)).as_secs_f64() * 1000.0
}

/// Lines that a node printed.
struct Log {
    /// Changes of its state.
    changes: usize,
    others: usize,
}

fn log(scratch: &TempDir, node: usize) -> Log {
    let text = fs::read_to_string(scratch.path(&format!("node{node}.log"))).expect("what the node printed");
    let changes = text.lines().filter(|line| line.starts_with("StateChanged")).count();
    Log { changes, others: text.lines().count() - changes }
}
