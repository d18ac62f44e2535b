use windlass_api::{ConnectionPolicy, ExternalTrafficPolicy};
use windlass_vrrp::Vrid;

use super::super::desired::Replica;
use super::super::service_proxy::ServiceProxy;
use super::way_back::WayBack;
use super::*;

const OWN: &str = "192.0.2.11";
const SECOND: &str = "192.0.2.12";
const THIRD: &str = "192.0.2.13";
const FOURTH: &str = "192.0.2.14";
const FIFTH: &str = "192.0.2.15";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn replica(node: &str, address: &str) -> Replica {
    Replica { node: node.to_owned(), addresses: [ip(address)].into(), ranks_above: false }
}

fn assignment() -> Assignment {
    let text = r#"{"virtualRouter":"a","interface":"eth0","vrid":64,"priority":200,"intervalMilliseconds":100,
        "source":"192.0.2.11","peers":["192.0.2.12","192.0.2.13"],"addresses":["192.0.2.200"],"connections":"Replicate"}"#;
    let assignment: Assignment = serde_json::from_str(text).unwrap();
    Assignment { replicas: vec![replica("n2", SECOND), replica("n3", THIRD)], ..assignment }
}

fn peer(address: &str, knows_all: bool, in_sync: bool) -> Peer {
    let knowledge = if knows_all { Knowledge::All } else { Knowledge::NotAll };
    Peer { own: ip(OWN), address: ip(address), answers: true, knowledge, in_sync }
}

fn known(peers: &[Peer]) -> Known {
    Known { peers: peers.to_vec(), error: None }
}

/// The wall clock so many milliseconds after the start.
fn wall(millis: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_millis(millis)
}

const ACTIVE: (State, Option<&str>) = (State::Active, Some(OWN));
const BESIDE_SECOND: (State, Option<&str>) = (State::Backup, Some(SECOND));

/// The agent's part, with the time of the test.
struct Rig {
    replication: Replication,
    assignment: Assignment,
    obstacle: Option<Obstacle>,
    astray: Vec<Astray>,
    start: Instant,
}

impl Rig {
    fn new() -> Self {
        let (replication, assignment) = (Replication::default(), assignment());
        Self { replication, assignment, obstacle: None, astray: Vec::new(), start: Instant::now() }
    }

    /// How it stands so many milliseconds after the start.
    fn look(&mut self, millis: u64, (state, active): (State, Option<&str>), known: &Known) -> Share {
        let key = self.assignment.key().unwrap();
        let standings = [(key.clone(), Standing { state, active: active.map(ip) })].into();
        let now = self.start + Duration::from_millis(millis);
        let before = self.replication.share(&key);
        let assignments = [self.assignment.clone()];
        let way = |_: &Assignment| self.obstacle.clone().map_or(Ok(self.astray.as_slice()), Err);
        let changed = self.replication.look(&assignments, &standings, way, known, now, wall(millis));
        let share = self.replication.share(&key);
        assert_eq!(changed, before != share, "the engine is told what changed");
        share
    }

    /// What is told: the reason and the sentence.
    fn told(&self) -> Option<(bool, &'static str, String)> {
        let findings = self.replication.findings();
        let finding = findings.get(&self.assignment.key().unwrap())?;
        Some((finding.holds, finding.reason, finding.sentence("n1", ip("192.0.2.200"))))
    }
}

#[test]
fn what_is_in_the_way_of_replication_is_named_with_the_first_thing_first() {
    let overlay = WayBack::Overlay { interface: "flannel.1".to_owned() };
    let unknown = WayBack::Unknown { reason: "no netlink".to_owned() };
    let programs = ServiceProxy::Programs { by: "Cilium", interface: "cilium_host" };
    let arrives = WayBack::Arrives(vec![]);
    let lost = WayBack::Lost { why: "they do not arrive".to_owned() };
    let rows = [
        (None, ServiceProxy::Nftables, &arrives, None),
        (None, ServiceProxy::Iptables, &arrives, None),
        (Some("off"), ServiceProxy::Nftables, &arrives, Some(reasons::UNGUARDED)),
        (Some("off"), ServiceProxy::Ipvs, &overlay, Some(reasons::UNGUARDED)),
        (None, ServiceProxy::Ipvs, &arrives, Some(reasons::SERVICE_PROXY)),
        (None, ServiceProxy::Unknown, &arrives, Some(reasons::SERVICE_PROXY)),
        (None, programs, &overlay, Some(reasons::SERVICE_PROXY)),
        (None, ServiceProxy::Iptables, &overlay, Some(reasons::OVERLAY)),
        (None, ServiceProxy::Nftables, &lost, Some(reasons::NO_WAY_BACK)),
        (None, ServiceProxy::Nftables, &unknown, Some(reasons::ROUTES_UNKNOWN)),
    ];
    for (unguarded, proxy, way_back, expected) in rows {
        let obstacle = Obstacle::look(unguarded, proxy, Some(0x4000), way_back).err();
        let reason = obstacle.as_ref().and_then(Obstacle::finding).map(|finding| finding.reason);
        assert_eq!(reason, expected, "{unguarded:?} {proxy:?} {way_back:?}");
    }
    let unmarked = Obstacle::look(None, ServiceProxy::Nftables, None, &arrives).unwrap_err();
    let told = unmarked.finding().unwrap();
    assert!(!told.holds && told.why.contains("--kube-proxy-masquerade-bit"), "{told:?}");
    let not_looked = Obstacle::look(None, ServiceProxy::Nftables, Some(0x4000), &WayBack::NotLooked);
    assert_eq!(not_looked, Err(Obstacle::NotLooked));
    assert_eq!(Obstacle::NotLooked.finding(), None, "it is not told what is looked for still");
}

#[test]
fn the_vip_becomes_the_source_once_another_node_has_had_the_connections_and_stays_it() {
    let mut rig = Rig::new();
    let both: BTreeSet<IpAddr> = [ip(SECOND), ip(THIRD)].into();
    let rows = [
        ("nobody answers: planned moves go on as without", 0, known(&[]), false),
        ("still nobody", 250, known(&[peer(SECOND, false, false)]), false),
        ("the second has them", 500, known(&[peer(SECOND, true, false)]), true),
        ("it lags behind", 750, known(&[peer(SECOND, false, false)]), true),
        ("it died long ago, and may come back", 600_000, known(&[]), true),
        ("the kernel tells no more", 600_250, Known { error: Some("no events".into()), ..known(&[]) }, false),
        ("and again, to nobody", 600_500, known(&[]), false),
    ];
    for (what, millis, known, expected) in rows {
        let share = rig.look(millis, ACTIVE, &known);
        assert_eq!((share.vip_as_source, &share.replicas), (expected, &both), "{what}");
        assert!(!share.succession.holds_back(), "{what}");
    }
    rig.obstacle = Some(Obstacle::Overlay("vx0".to_owned()));
    assert_eq!(rig.look(601_000, ACTIVE, &known(&[peer(SECOND, true, false)])), Share::default());
    rig.obstacle = None;
    assert!(!rig.look(601_250, ACTIVE, &known(&[])).vip_as_source, "what was before does not count");
}

#[test]
fn where_the_best_two_are_dead_the_next_that_lives_has_the_connections() {
    let mut rig = Rig::new();
    rig.assignment.replicas.extend([replica("n4", FOURTH), replica("n5", FIFTH)]);
    let rows = [
        ("nobody was heard yet", known(&[]), [SECOND, THIRD]),
        (
            "all live",
            known(&[SECOND, THIRD, FOURTH, FIFTH].map(|one| peer(one, false, false))),
            [SECOND, THIRD],
        ),
        ("one has died", known(&[SECOND, FOURTH, FIFTH].map(|one| peer(one, true, false))), [SECOND, FOURTH]),
        ("two have", known(&[FOURTH, FIFTH].map(|one| peer(one, true, false))), [FOURTH, FIFTH]),
        (
            "it comes back",
            known(&[SECOND, FOURTH, FIFTH].map(|one| peer(one, true, false))),
            [SECOND, FOURTH],
        ),
    ];
    for (millis, (what, known, expected)) in (0..).step_by(250).zip(rows) {
        assert_eq!(rig.look(millis, ACTIVE, &known).replicas, expected.map(ip).into(), "{what}");
    }
    assert!(rig.told().unwrap().2.contains("n2 and n4 have the connections"), "{:?}", rig.told());
}

#[test]
fn a_node_takes_over_from_an_active_once_it_has_its_connections_or_after_a_minute() {
    let (in_sync, not) = (known(&[peer(SECOND, true, true)]), known(&[peer(SECOND, true, false)]));
    let of_another = known(&[peer(SECOND, false, false), peer(THIRD, true, true)]);
    let other_own = Peer { own: ip("198.51.100.11"), ..peer(SECOND, true, true) };
    let nothing = (State::Initialize, None);
    let silent = (State::Backup, None);
    let mut rig = Rig::new();
    assert!(
        rig.replication.share(&rig.assignment.key().unwrap()).succession.holds_back(),
        "before the first look"
    );
    let rows = [
        ("it starts", 0, nothing, &not, true),
        ("its cable was out for long", 600_000, nothing, &not, true),
        ("it hears the Active", 600_250, BESIDE_SECOND, &not, true),
        ("it has another's connections only", 601_000, BESIDE_SECOND, &of_another, true),
        ("it has those on another LAN", 602_000, BESIDE_SECOND, &known(&[other_own]), true),
        ("it has them", 603_000, BESIDE_SECOND, &in_sync, false),
        ("it is Active", 603_250, ACTIVE, &not, false),
        ("it was preempted", 700_000, BESIDE_SECOND, &not, true),
        ("almost a minute later", 759_999, BESIDE_SECOND, &not, true),
        ("a minute later", 760_000, BESIDE_SECOND, &not, false),
        ("it stays so", 900_000, BESIDE_SECOND, &not, false),
        ("it is in sync again", 900_250, BESIDE_SECOND, &in_sync, false),
        ("and out of it", 900_500, BESIDE_SECOND, &not, true),
        ("the Active falls silent, for whom nobody waits", 900_750, silent, &not, true),
        ("it was Active already", 901_000, ACTIVE, &not, false),
    ];
    for (what, millis, standing, known, expected) in rows {
        assert_eq!(rig.look(millis, standing, known).succession.holds_back(), expected, "{what}");
    }
}

#[test]
fn a_node_waits_ten_seconds_for_an_active_that_does_not_answer() {
    let silent = Peer { answers: false, ..peer(SECOND, false, false) };
    for known in [known(&[]), known(&[silent]), known(&[silent, peer(THIRD, true, true)])] {
        let mut rig = Rig::new();
        for (millis, expected) in [(0, true), (9_999, true), (10_000, false)] {
            let share = rig.look(millis, BESIDE_SECOND, &known);
            assert_eq!(share.succession.holds_back(), expected, "{known:?}, {millis} ms");
        }
    }
}

#[test]
fn a_node_without_the_connections_comes_after_those_that_have_them_when_the_active_dies() {
    let (in_sync, not) = (known(&[peer(SECOND, true, true)]), known(&[peer(SECOND, true, false)]));
    let silent = (State::Backup, None);
    let mut rig = Rig::new();
    assert!(
        rig.replication.share(&rig.assignment.key().unwrap()).succession.trails(),
        "before the first look"
    );
    let rows = [
        ("it starts", 0, (State::Initialize, None), &not, true),
        ("nobody is Active", 250, silent, &not, true),
        ("it hears the Active", 500, BESIDE_SECOND, &not, true),
        ("which dies", 750, silent, &not, true),
        ("another takes over", 1000, BESIDE_SECOND, &not, true),
        ("it has the connections", 1250, BESIDE_SECOND, &in_sync, false),
        ("that one dies: it is among those that have them", 1500, silent, &not, false),
        ("it takes over", 1750, ACTIVE, &not, false),
        ("it was preempted", 2000, BESIDE_SECOND, &not, true),
        ("a minute later it waits no more", 62_000, BESIDE_SECOND, &not, false),
    ];
    for (what, millis, standing, known, expected) in rows {
        assert_eq!(rig.look(millis, standing, known).succession.trails(), expected, "{what}");
    }
}

#[test]
fn with_slow_adverts_a_copy_counts_until_a_dead_active_is_replaced() {
    let (in_sync, not) = (known(&[peer(SECOND, true, true)]), known(&[peer(SECOND, true, false)]));
    let rows = [
        (100, [(1_500, Succession::Trailing), (4_000, Succession::Trailing)]),
        (500, [(999, Succession::OfTheDead), (1_000, Succession::Trailing)]),
        (1_000, [(2_999, Succession::OfTheDead), (3_000, Succession::Trailing)]),
        (40_000, [(158_999, Succession::OfTheDead), (159_000, Succession::Trailing)]),
    ];
    for (interval_milliseconds, looks) in rows {
        let mut rig = Rig::new();
        rig.assignment.interval_milliseconds = interval_milliseconds;
        assert_eq!(rig.look(0, BESIDE_SECOND, &in_sync).succession, Succession::Whole);
        for (millis, expected) in looks {
            let succession = rig.look(millis, BESIDE_SECOND, &not).succession;
            assert_eq!(succession, expected, "{interval_milliseconds} ms, {millis} ms after it was in sync");
        }
        rig.look(160_000, BESIDE_SECOND, &in_sync);
        rig.look(160_001, ACTIVE, &not);
        let preempted = rig.look(160_002, BESIDE_SECOND, &not).succession;
        assert_eq!(preempted, Succession::Trailing, "{interval_milliseconds} ms, after it was Active itself");
    }
}

#[test]
fn a_node_that_cannot_replicate_waits_for_nothing_but_what_may_pass() {
    let rows = [
        (Obstacle::NotLooked, true),
        (Obstacle::Proxy(ServiceProxy::Unknown.name()), true),
        (Obstacle::Proxy(ServiceProxy::Ipvs.name()), false),
        (Obstacle::Overlay("vx0".to_owned()), false),
        (Obstacle::NoWayBack("why".to_owned()), false),
        (Obstacle::Unguarded("off".to_owned()), false),
        (Obstacle::RoutesUnknown("why".to_owned()), false),
    ];
    for (obstacle, waits) in rows {
        let mut rig = Rig { obstacle: Some(obstacle.clone()), ..Rig::new() };
        let share = rig.look(0, BESIDE_SECOND, &known(&[]));
        let succession = if waits { Succession::Trailing } else { Succession::Whole };
        assert_eq!(share, Share { succession, ..Share::default() }, "{obstacle:?}");
        assert!(
            !rig.look(10_000, BESIDE_SECOND, &known(&[])).succession.holds_back(),
            "{obstacle:?}, ten seconds later"
        );
        assert_eq!(rig.told(), None, "it is the Active that tells");
        let mut rig = Rig { obstacle: Some(obstacle.clone()), ..Rig::new() };
        let share = rig.look(0, (State::Backup, None), &known(&[]));
        assert_eq!(share.succession, succession, "{obstacle:?}, while nobody is heard");
    }
}

#[test]
fn an_obstacle_of_a_moment_changes_nothing_until_it_has_lasted() {
    let rows = [
        (Obstacle::Unguarded("off".to_owned()), 10_000),
        (Obstacle::RoutesUnknown("why".to_owned()), 10_000),
        (Obstacle::Proxy(ServiceProxy::Unknown.name()), 25_000),
        (Obstacle::Proxy(ServiceProxy::Ipvs.name()), 0),
        (Obstacle::Overlay("vx0".to_owned()), 0),
        (Obstacle::NoWayBack("why".to_owned()), 0),
    ];
    let stray = || vec![Astray::silent("10.244.3.0/24", "flannel.1")];
    for (obstacle, patience) in rows {
        for standing in [ACTIVE, BESIDE_SECOND] {
            let mut rig = Rig { astray: stray(), ..Rig::new() };
            let in_sync = known(&[peer(SECOND, true, true)]);
            let whole = rig.look(0, standing, &in_sync);
            assert!(!whole.replicas.is_empty() && whole.vip_as_source && !whole.astray.is_empty());
            // Once more after it was gone: it is counted anew.
            for start in [1000, 50_000] {
                rig.obstacle = Some(obstacle.clone());
                for millis in (start..start + patience).step_by(999) {
                    assert_eq!(rig.look(millis, standing, &in_sync), whole, "{obstacle:?}, {millis}");
                }
                rig.obstacle = None;
                assert_eq!(rig.look(start + patience, standing, &in_sync), whole, "{obstacle:?}");
            }
            rig.obstacle = Some(obstacle.clone());
            let looks = [100_000, 100_000 + patience].map(|millis| rig.look(millis, standing, &in_sync));
            assert_eq!(looks[0] == whole, patience > 0, "{obstacle:?}");
            assert!(looks[1].replicas.is_empty() && !looks[1].vip_as_source, "{obstacle:?}");
        }
    }
}

#[test]
fn the_active_tells_who_has_the_connections_and_that_nobody_does_after_ten_seconds() {
    let mut rig = Rig::new();
    let (both, second) =
        (known(&[peer(SECOND, true, false), peer(THIRD, true, false)]), known(&[peer(SECOND, true, false)]));
    let (have, lack) = (reasons::REPLICATED, reasons::NOT_IN_SYNC);
    let rows = [
        ("Backups tell nothing", 0, BESIDE_SECOND, &both, None),
        ("they have nothing yet, and that is all that a Backup tells", 10_000, ACTIVE, &both, None),
        ("nor in the next moment", 10_999, ACTIVE, &both, None),
        ("it is early", 14_999, ACTIVE, &known(&[]), None),
        ("it is late", 15_000, ACTIVE, &known(&[]), Some((false, lack, "n2 and n3 do not have them"))),
        ("one has them", 20_250, ACTIVE, &second, Some((true, have, "n2 has the connections"))),
        ("both have them", 20_500, ACTIVE, &both, Some((true, have, "n2 and n3 have the connections"))),
        ("both lag", 30_000, ACTIVE, &known(&[]), Some((true, have, "n2 and n3 have the connections"))),
        ("one lags for long", 30_500, ACTIVE, &second, Some((true, have, "n2 has the connections"))),
        ("both do", 40_500, ACTIVE, &known(&[]), Some((false, lack, "n2 and n3 do not have them"))),
        ("both again", 40_750, ACTIVE, &both, Some((true, have, "n2 and n3 have the connections"))),
        ("it lost the election", 41_000, BESIDE_SECOND, &both, None),
        ("it is back: what they had before does not count", 42_000, ACTIVE, &known(&[]), None),
        ("it is back for long", 47_000, ACTIVE, &known(&[]), Some((false, lack, "n2 and n3 do not have"))),
    ];
    for (what, millis, standing, known, expected) in rows {
        rig.look(millis, standing, known);
        match (rig.told(), expected) {
            (None, None) => {}
            (Some((holds, reason, sentence)), Some((expected, because, words))) => {
                assert_eq!((holds, reason), (expected, because), "{what}");
                assert!(sentence.contains(words) && sentence.contains("192.0.2.200"), "{what}: {sentence}");
            }
            (told, expected) => panic!("{what}: {told:?} instead of {expected:?}"),
        }
    }
    rig.look(48_000, ACTIVE, &Known { error: Some("no events".into()), ..both });
    let told = rig.told().unwrap();
    assert_eq!((told.0, told.1), (false, reasons::REPLICATION_FAILED));
    assert!(told.2.ends_with("no events"), "{}", told.2);
}

#[test]
fn of_a_node_that_has_no_room_for_them_it_is_told_what_helps() {
    let full = Peer { knowledge: Knowledge::NoRoom, ..peer(SECOND, false, false) };
    let mut rig = Rig::new();
    rig.look(0, ACTIVE, &known(&[full]));
    rig.look(5000, ACTIVE, &known(&[full, peer(THIRD, false, false)]));
    let (holds, reason, sentence) = rig.told().unwrap();
    assert_eq!((holds, reason), (false, reasons::NOT_IN_SYNC));
    assert!(
        sentence.contains("n2 has no room for them") && sentence.contains("nf_conntrack_max"),
        "{sentence}"
    );
    assert!(sentence.contains("n3 does not have them: look whether its agent runs"), "{sentence}");
    rig.look(5250, ACTIVE, &known(&[full, peer(THIRD, true, false)]));
    let (holds, _, sentence) = rig.told().unwrap();
    assert!(holds && sentence.contains("n3 has the connections") && !sentence.contains("n2"), "{sentence}");
}

#[test]
fn what_no_node_could_go_on_with_is_not_replicated_and_the_active_says_why() {
    let rows = [
        (Assignment { virtual_mac: true, ..assignment() }, reasons::VIRTUAL_MAC_ADDRESS),
        (Assignment { replicas: vec![], ..assignment() }, reasons::NO_OTHER_NODE),
    ];
    for (assignment, expected) in rows {
        let mut rig = Rig { assignment, ..Rig::new() };
        assert_eq!(rig.look(0, ACTIVE, &known(&[])), Share::default(), "{expected}");
        assert_eq!(rig.told().map(|(holds, reason, _)| (holds, reason)), Some((false, expected)));
        assert!(!rig.look(1, BESIDE_SECOND, &known(&[])).succession.holds_back(), "{expected}");
    }
}

#[test]
fn while_the_engines_replication_is_away_nobody_is_said_to_know_and_a_backup_waits_ten_seconds_at_most() {
    let away = Known { error: Some("windlass-connections panicked".to_owned()), ..Known::default() };
    let (mut active, synced) = (Rig::new(), known(&[peer(SECOND, true, true)]));
    for millis in [0, 2_000] {
        active.look(millis, ACTIVE, &synced);
    }
    assert!(active.told().is_some_and(|(holds, ..)| holds));
    active.look(3_000, ACTIVE, &away);
    let (holds, reason, sentence) = active.told().unwrap();
    assert_eq!((holds, reason), (false, reasons::REPLICATION_FAILED));
    assert!(sentence.contains("panicked"), "{sentence}");
    let mut backup = Rig::new();
    assert!(backup.look(0, BESIDE_SECOND, &away).succession.holds_back());
    assert!(!backup.look(10_000, BESIDE_SECOND, &away).succession.holds_back());
}

#[test]
fn a_router_that_replicates_no_more_is_forgotten() {
    let changes: [fn(&mut Assignment); 2] = [
        |assignment| assignment.connections = ConnectionPolicy::Forward,
        |assignment| assignment.external_traffic_policy = ExternalTrafficPolicy::Local,
    ];
    for change in changes {
        let mut rig = Rig::new();
        rig.look(0, ACTIVE, &known(&[peer(SECOND, true, true)]));
        assert!(!rig.replication.is_idle());
        change(&mut rig.assignment);
        let way = |_: &Assignment| Ok(&[][..]);
        let (start, wall) = (rig.start, wall(0));
        rig.replication.look(&[rig.assignment.clone()], &BTreeMap::new(), way, &known(&[]), start, wall);
        assert!(rig.replication.is_idle() && rig.replication.findings().is_empty());
    }
}

#[test]
fn the_engine_is_told_the_replicas_the_source_and_whether_to_preempt() {
    let config = || RouterConfig::new("eth0", Vrid::new(64).unwrap(), ip(OWN));
    let astray: BTreeSet<IpNet> = ["10.244.3.0/24".parse().unwrap()].into();
    let share = Share {
        replicas: [ip(SECOND)].into(),
        vip_as_source: true,
        astray: astray.clone(),
        succession: Succession::Trailing,
    };
    let applied = share.applied_to(config());
    assert!(applied.priority < config().priority);
    assert_eq!(applied.replicas, [ip(SECOND)].into());
    assert!(applied.vip_as_source && !applied.preempt);
    assert_eq!(applied.astray, astray);
    assert_eq!(Share::default().applied_to(config()), config());
}

#[test]
fn backends_whose_answers_go_astray_are_told_to_the_engine_and_in_the_message() {
    let mut rig = Rig { astray: vec![Astray::silent("10.244.3.0/24", "flannel.1")], ..Rig::new() };
    let known = known(&[peer(SECOND, true, false)]);
    rig.look(0, BESIDE_SECOND, &known);
    rig.look(0, ACTIVE, &known);
    let share = rig.look(1000, ACTIVE, &known);
    assert_eq!(share.astray, ["10.244.3.0/24".parse().unwrap()].into());
    let (holds, reason, sentence) = rig.told().unwrap();
    assert_eq!((holds, reason), (true, reasons::REPLICATED));
    assert!(
        sentence
            .contains("n2 has the connections, but for those with backends in 10.244.3.0/24 (by flannel.1)"),
        "{sentence}"
    );
    rig.astray.clear();
    assert_eq!(rig.look(1250, ACTIVE, &known).astray, BTreeSet::new());
    assert!(!rig.told().unwrap().2.contains("but for"));
}

/// Their backends answer to the node, which nobody can take over.
#[test]
fn connections_from_before_replication_began_are_left_out_by_the_message_too() {
    let mut rig = Rig::new();
    let (nobody, second) = (known(&[]), known(&[peer(SECOND, true, false)]));
    let earlier = "n2 has the connections, but for those from before 1970-01-01T00:00:05Z, when replication \
                   began; connections to 192.0.2.200 continue there if node n1 dies";
    let whole = "n2 has the connections; connections to 192.0.2.200 continue there if node n1 dies";
    let failed = Known { error: Some("no events".into()), ..known(&[]) };
    rig.look(0, ACTIVE, &nobody);
    let rows = [
        ("it was Active already", 5250, ACTIVE, &second, Some(earlier)),
        ("and is still", 600_000, ACTIVE, &second, Some(earlier)),
        ("another one is, which told all", 601_000, BESIDE_SECOND, &second, None),
        ("it is again", 602_000, ACTIVE, &second, None),
        ("and has told all since", 603_000, ACTIVE, &second, Some(whole)),
    ];
    for (what, millis, standing, known, expected) in rows {
        rig.look(millis, standing, known);
        assert_eq!(rig.told().map(|told| told.2).as_deref(), expected, "{what}");
    }
    rig.look(604_000, ACTIVE, &failed);
    rig.look(700_900, ACTIVE, &second);
    let (_, _, sentence) = rig.told().unwrap();
    assert!(sentence.contains("from before 1970-01-01T00:11:40Z"), "it stopped for a while: {sentence}");
    // Both exceptions.
    rig.astray = vec![Astray::silent("10.244.3.0/24", "flannel.1")];
    rig.look(701_000, ACTIVE, &second);
    let (_, _, sentence) = rig.told().unwrap();
    let both = "but for those with backends in 10.244.3.0/24 (by flannel.1)";
    assert!(sentence.contains(both) && sentence.contains(", and those from before"), "{sentence}");
}
