//! The checks of Announcements.

use std::collections::BTreeSet;

use super::*;
use crate::agent::health::node_check_monitor::wanted;
use crate::agent::health::node_checks::NodeChecks;
use crate::agent::health::request::CheckRequest;
use crate::agent::tasks::Tasks;
use crate::parts::Parts;

/// One that each node makes each `period` seconds, and that counts after so many failures.
fn check_of(period: u32, threshold: u32) -> NodeCheck {
    NodeCheck { period_seconds: period, failure_threshold: threshold, ..check(80) }
}

fn at(begin: Instant, milliseconds: u64) -> Instant {
    begin + Duration::from_millis(milliseconds)
}

fn note(checks: &mut NodeChecks, check: &NodeCheck, finding: Finding, now: Instant) {
    checks.note(check, CheckRequest::new(check), finding, now);
}

#[test]
fn a_check_that_ran_when_its_part_panicked_is_made_again() {
    let begin = Instant::now();
    let mut checks = NodeChecks::default();
    checks.want(&[check(80)].into(), &BTreeSet::new(), begin);
    drop(checks.take_due(begin).expect("due"));
    let next = at(begin, 10_000);
    assert!(checks.take_due(next).is_none(), "it still runs");
    checks.renew_requests();
    assert!(checks.take_due(next).is_some());
}

/// One run of a check, on a node without addresses.
pub(super) async fn run(check: &NodeCheck) -> Finding {
    CheckRequest::new(check).run(&BTreeSet::new()).await
}

#[test]
fn a_check_of_several_routers_is_made_once_whatever_their_nodes_are_worth() {
    let with = |priority: u8, checks: &[NodeCheck]| Assignment {
        checks: checks.iter().cloned().collect(),
        ..assignment(priority, 0, &[])
    };
    let desired = Desired {
        assignments: vec![with(254, &[check(1), check(2)]), with(60, &[check(1)]), with(30, &[check(3)])],
        ..Desired::default()
    };
    assert_eq!(wanted(&desired), [check(1), check(2), check(3)].into());
}

#[test]
fn each_check_is_asked_at_once_then_each_period_and_never_twice_at_a_time() {
    let begin = Instant::now();
    let (often, seldom) = (check_of(1, 3), check_of(10, 3));
    let mut checks = NodeChecks::default();
    checks.want(&[often.clone(), seldom.clone()].into(), &BTreeSet::new(), begin);
    let take = |checks: &mut NodeChecks, now: u64| -> BTreeSet<NodeCheck> {
        std::iter::from_fn(|| checks.take_due(at(begin, now))).map(|(check, _)| check).collect()
    };
    assert_eq!(take(&mut checks, 0), [often.clone(), seldom.clone()].into());
    assert_eq!((take(&mut checks, 60_000), checks.next_due()), ([].into(), None), "both are being asked");
    note(&mut checks, &often, passed(), at(begin, 200));
    note(&mut checks, &seldom, passed(), at(begin, 200));
    assert_eq!(checks.next_due(), Some(at(begin, 1000)));
    assert_eq!(take(&mut checks, 999), [].into());
    assert_eq!(take(&mut checks, 1000), [often.clone()].into());
    note(&mut checks, &often, silent(), at(begin, 30_000));
    assert_eq!(take(&mut checks, 30_000), [often.clone(), seldom.clone()].into(), "late, and once");
    checks.want(&[often.clone()].into(), &BTreeSet::new(), at(begin, 30_000));
    note(&mut checks, &seldom, failed(), at(begin, 30_100));
    note(&mut checks, &often, passed(), at(begin, 30_100));
    assert_eq!(take(&mut checks, 60_000), [often].into(), "the other is wanted no more");
}

#[test]
fn the_request_of_a_check_is_made_once_for_all_its_runs() {
    let (begin, check) = (Instant::now(), check_of(1, 3));
    let wanted = [check.clone()].into();
    let mut checks = NodeChecks::default();
    checks.want(&wanted, &BTreeSet::new(), begin);
    let (_, mut request) = checks.take_due(begin).expect("a new check is due");
    // No request that is made anew has this port.
    if let CheckRequest::Server { port, .. } = &mut request {
        *port = 7;
    }
    checks.note(&check, request, passed(), begin);
    checks.want(&wanted, &BTreeSet::new(), begin);
    let (_, again) = checks.take_due(at(begin, 1000)).expect("due again");
    assert!(matches!(again, CheckRequest::Server { port: 7, .. }), "{again:?}");
}

#[test]
fn a_failure_counts_one_question_later_where_the_node_is_active() {
    let (begin, check) = (Instant::now(), check_of(1, 2));
    let mut checks = NodeChecks::default();
    checks.want(&[check.clone()].into(), &BTreeSet::new(), begin);
    let mut found = |finding: Finding, second: u64| {
        note(&mut checks, &check, finding, at(begin, second * 1000));
        checks.failed().remove(&check).map(|failed| failed.spares_active)
    };
    assert_eq!(found(silent(), 0), None, "nothing is lowered before it was asked");
    assert_eq!(found(silent(), 1), Some(true));
    assert_eq!(found(silent(), 2), Some(false));
    for second in 3..62 {
        assert_eq!(found(passed(), second), Some(false), "{second}");
    }
    for second in 62..64 {
        assert_eq!(found(passed(), second), Some(true), "{second}: the Active is well again first");
    }
    assert_eq!(found(passed(), 64), None);
}

/// Nodes that make the same check, each at its own moment, and elect the one with the highest priority: an Active that is equal stays.
struct Nodes {
    check: NodeCheck,
    checks: Vec<NodeChecks>,
    phases: Vec<u64>,
    active: usize,
    moves: usize,
}

impl Nodes {
    fn new(check: &NodeCheck, phases: &[u64], begin: Instant) -> Self {
        let of_node = |_: &u64| {
            let mut checks = NodeChecks::default();
            checks.want(&[check.clone()].into(), &BTreeSet::new(), begin);
            checks
        };
        let (checks, phases) = (phases.iter().map(of_node).collect(), phases.to_vec());
        Self { check: check.clone(), checks, phases, active: 0, moves: 0 }
    }

    fn priority(&self, node: usize) -> u8 {
        let failed = FailedChecks { of_announcements: self.checks[node].failed(), ..FailedChecks::default() };
        let before = u8::try_from(node).expect("few nodes");
        let assignment = Assignment {
            checks: [self.check.clone()].into(),
            ..assignment(priorities::good(node), before, &[])
        };
        failed.priority(&assignment, node == self.active)
    }

    /// Each node asks each period, at its moment of it, what all find alike: `finding` by the millisecond.
    fn run(&mut self, begin: Instant, until: u64, finding: impl Fn(u64) -> Finding) {
        let period = u64::from(self.check.period_seconds) * 1000;
        let mut questions: Vec<(u64, usize)> = (0..self.phases.len())
            .flat_map(|node| {
                let first = self.phases[node];
                (0..until / period).map(move |nth| (first + nth * period, node))
            })
            .collect();
        questions.sort_unstable();
        for (now, node) in questions {
            note(&mut self.checks[node], &self.check, finding(now), at(begin, now));
            let best = (0..self.checks.len()).max_by_key(|node| self.priority(*node)).expect("a node");
            if self.priority(best) > self.priority(self.active) {
                self.active = best;
                self.moves += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn what_fails_on_all_nodes_alike_moves_nothing(
        period in 1..20u32,
        threshold in 1..5u32,
        phases in prop::collection::btree_set(0..1000u64, 2..6),
        order in any::<prop::sample::Index>(),
        spans in prop::collection::vec(0..200_000u64, 1..8),
    ) {
        let begin = Instant::now();
        // What does not last for a period some nodes do not see.
        let spans: Vec<u64> = spans.into_iter().map(|span| span + u64::from(period) * 1000).collect();
        let check = check_of(period, threshold);
        let mut phases: Vec<u64> = phases.into_iter().map(|share| share * u64::from(period)).collect();
        let first = order.index(phases.len());
        phases.rotate_left(first);
        let mut nodes = Nodes::new(&check, &phases, begin);
        let mut ends: Vec<u64> = spans.iter().scan(0, |end, span| { *end += span; Some(*end) }).collect();
        ends.push(u64::MAX);
        let finding = |now: u64| match ends.iter().filter(|end| **end <= now).count() % 2 {
            0 => passed(),
            _ => silent(),
        };
        nodes.run(begin, spans.iter().sum::<u64>() + 200_000, finding);
        prop_assert_eq!(nodes.moves, 0);
    }
}

#[test]
fn what_fails_where_the_active_is_moves_the_addresses_once_and_back_when_it_is_well() {
    let (begin, check) = (Instant::now(), check_of(1, 3));
    let mut nodes = Nodes::new(&check, &[0, 300], begin);
    nodes.run(begin, 30_000, |_| passed());
    for second in 30..34 {
        assert_eq!(nodes.active, 0, "{second}");
        note(&mut nodes.checks[0], &check, failed(), at(begin, second * 1000));
    }
    nodes.run(at(begin, 34_000), 1000, |now| if now == 0 { failed() } else { passed() });
    assert_eq!((nodes.active, nodes.moves), (1, 1));
    nodes.run(at(begin, 35_000), 200_000, |_| passed());
    assert_eq!((nodes.active, nodes.moves), (0, 2), "it is the first again");
}

#[test]
fn a_check_that_changes_its_mind_all_the_time_moves_the_addresses_once_a_minute_at_most() {
    // Failures in a row that count, seconds for which it fails, then passes, and how often that moves them away within ten minutes.
    let rows = [(1, 1, 1, 0), (1, 2, 1, 1), (3, 3, 1, 0), (3, 4, 1, 1), (1, 2, 14, 1), (1, 2, 70, 9)];
    for (threshold, failing, passing, moves) in rows {
        let (begin, check) = (Instant::now(), check_of(1, threshold));
        let mut nodes = Nodes::new(&check, &[0, 300], begin);
        let mut left_at = Vec::new();
        for second in 0..600 {
            let flapping = if second % (failing + passing) < failing { silent() } else { passed() };
            for (node, offset, finding) in [(0, 0, flapping), (1, 300, passed())] {
                note(&mut nodes.checks[node], &check, finding, at(begin, second * 1000 + offset));
            }
            let best = usize::from(nodes.priority(1) > nodes.priority(0));
            if nodes.active == 0 && best == 1 {
                left_at.push(second);
            }
            nodes.active = best;
        }
        let what = format!("{failing} s of {} s, threshold {threshold}: {left_at:?}", failing + passing);
        assert!(left_at.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{what}");
        assert_eq!(left_at.len(), moves, "{what}");
    }
}

#[test]
fn an_agent_that_is_restarted_knows_what_failed_and_one_that_is_started_knows_of_nothing() {
    let folder = Folder::new("failed");
    let (begin, check) = (Instant::now(), check(80));
    let failed_of = |(_, receiver): (HealthMonitor, watch::Receiver<FailedChecks>)| {
        receiver.borrow().of_announcements.clone()
    };
    assert_eq!(failed_of(HealthMonitor::new(None, &folder.0, begin)), BTreeMap::new());
    FailedMemory::open(&folder.0).set([check.clone()].into());
    let known = failed_of(HealthMonitor::new(None, &folder.0, begin));
    let said = "it failed before this agent was started".to_owned();
    assert_eq!(known, [(check.clone(), FailedNodeCheck { reason: said, spares_active: false })].into());
    // It passes as soon as it has done so for a while.
    let mut checks = NodeChecks::default();
    checks.want(&[check.clone()].into(), &[check.clone()].into(), begin);
    for second in 0..14 {
        assert!(!checks.failed().is_empty(), "{second}");
        note(&mut checks, &check, passed(), at(begin, second * 1000));
    }
    assert!(checks.failed().is_empty());
    // What is in the way of the file, or in it, is no reason to stop.
    fs::write(folder.0.join("failed-checks.json"), "[{").expect("written");
    assert!(FailedMemory::open(&folder.0).failed().is_empty());
    fs::remove_dir_all(&folder.0).expect("removed");
    FailedMemory::open(&folder.0).set([check].into());
}

#[tokio::test]
async fn checks_are_made_as_long_as_a_router_has_them() {
    let folder = Folder::new("made");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let check = NodeCheck { failure_threshold: 1, ..check(port) };
    let (monitor, mut failed) = HealthMonitor::new(None, &folder.0, Instant::now());
    let (sender, desired) = watch::channel(None);
    let token = CancellationToken::new();
    let (_found, proxy) = watch::channel(ServiceProxy::Unknown);
    let no_node: ReadNode = Box::new(|| Box::pin(async { None }));
    let mut tasks = Tasks::new(Arc::new(Parts::new()), token.clone());
    monitor.start(&desired, || Duration::ZERO, proxy, no_node, &token, &mut tasks);
    let checks = [check.clone()].into();
    let assignments = vec![Assignment { checks, ..assignment(254, 0, &[]) }];
    sender.send_replace(Some(Arc::new(Desired { assignments, ..Desired::default() })));
    let known = failed.wait_for(|failed| !failed.of_announcements.is_empty()).await.expect("told").clone();
    assert!(known.of_announcements[&check].reason.contains("refused"), "{known:?}");
    assert_eq!(FailedMemory::open(&folder.0).failed(), &[check].into());
    sender.send_replace(Some(Arc::default()));
    failed.wait_for(|failed| failed.of_announcements.is_empty()).await.expect("told");
    token.cancel();
    drop(tasks.join().await);
    assert!(FailedMemory::open(&folder.0).failed().is_empty());
}

fn at_address(action: &str, address: SocketAddr, path: Option<&str>) -> NodeCheck {
    let mut asked = json!({ "host": address.ip(), "port": address.port() });
    if let Some(path) = path {
        asked["path"] = json!(path);
    }
    serde_json::from_value(json!({ action: asked })).expect("a check")
}

#[tokio::test]
async fn a_status_of_200_to_399_passes_any_other_fails_and_no_answer_is_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let rows: [(&[u8], Finding); 5] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", passed()),
        (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n", passed()),
        (
            b"HTTP/1.1 404 X\r\n\r\n",
            Finding::Failed(format!("it answers 404 Not Found at http://{address}/a?b=%20")),
        ),
        (
            b"HTTP/1.1 503 X\r\n\r\n",
            Finding::Failed(format!("it answers 503 Service Unavailable at http://{address}/a?b=%20")),
        ),
        (b"", silent()),
    ];
    let answers = rows.each_ref().map(|(answer, _)| *answer);
    let server = tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /a?b=%20 HTTP/1.1\r\n"), "{request:?}");
            stream.write_all(answer).await.expect("written");
        }
    });
    let check = at_address("httpGet", address, Some("/a?b=%20"));
    for (_, expected) in rows {
        match (run(&check).await, expected) {
            (Finding::Silent(_), Finding::Silent(_)) => {}
            (found, expected) => assert_eq!(found, expected),
        }
    }
    server.await.expect("a server");
    assert!(matches!(run(&check).await, Finding::Silent(_)), "it is gone");
}

#[tokio::test]
async fn a_connection_that_is_accepted_passes_and_one_that_is_refused_is_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let check = at_address("tcpSocket", address, None);
    assert_eq!(run(&check).await, passed());
    drop(listener);
    let found = run(&check).await;
    assert!(matches!(&found, Finding::Silent(why) if why.contains(&address.to_string())), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn who_accepts_and_does_not_answer_is_silent_after_the_time_that_the_check_says() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let check = NodeCheck { timeout_seconds: 7, ..at_address("httpGet", address, None) };
    let said = format!("no answer at http://{address}/ within 7s");
    assert_eq!(run(&check).await, Finding::Silent(said));
}

#[tokio::test]
async fn a_check_without_a_host_asks_this_node_wherever_somebody_listens() {
    for (listens, own) in [("127.0.0.1:0", BTreeSet::new()), ("127.0.0.9:0", ["127.0.0.9"].into())] {
        let listener = TcpListener::bind(listens).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let own = own.into_iter().map(|address: &str| address.parse().expect("an address")).collect();
        assert_eq!(CheckRequest::new(&check(port)).run(&own).await, passed(), "{listens}");
    }
}

/// Every character that the API server lets into a path (`validation/checks.rs` of the API) can be sent.
#[tokio::test]
async fn whatever_path_the_api_server_lets_through_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let path = "/-AZaz09._~!$&()*+,;=:@/?%41?";
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut request = vec![0; 1024];
        let length = stream.read(&mut request).await.expect("a request");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("written");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let check = at_address("httpGet", address, Some(path));
    assert_eq!(run(&check).await, passed());
    let request = server.await.expect("a server");
    assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
}
