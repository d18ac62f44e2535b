use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use windlass_api::NodeCheck;
use windlass_common::priorities;

use super::check::{Check, Finding, Patience};
use super::failed::{FailedNodeCheck, MOST_TOLD};
use super::failed_memory::FailedMemory;
use super::kube_proxy::KubeProxyMemory;
use super::kube_proxy_monitor::{Answers, ENDPOINTS, KUBE_PROXY, ports};
use super::*;
use crate::agent::desired::Assignment;

mod node_checks;
mod tls_and_grpc;

fn passed() -> Finding {
    Finding::Passed
}

fn failed() -> Finding {
    Finding::Failed("503".to_owned())
}

fn silent() -> Finding {
    Finding::Silent("refused".to_owned())
}

/// A folder of its own, empty, removed in the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windlass-health-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What was found for so many seconds, once a second, and whether the check fails then.
type Spans<'a> = &'a [(Finding, u64, bool)];

#[test]
fn a_check_fails_after_its_patience_and_passes_again_when_it_has_done_so_for_a_while() {
    let (thrice, longer) = (Patience::times(3, Duration::ZERO), Patience::times(3, Duration::from_secs(4)));
    let rows: [(&str, Check, Spans<'_>); 15] = [
        (
            "its own word is believed at once",
            Check::new(KUBE_PROXY),
            &[(passed(), 5, false), (failed(), 1, true)],
        ),
        ("also the first", Check::new(KUBE_PROXY), &[(failed(), 1, true)]),
        (
            "a restart is no failure",
            Check::new(KUBE_PROXY),
            &[(passed(), 1, false), (silent(), 15, false), (passed(), 9, false), (silent(), 15, false)],
        ),
        ("silence is, in the end", Check::new(KUBE_PROXY), &[(passed(), 1, false), (silent(), 16, true)]),
        ("where nobody ever answered, there is nobody", Check::new(KUBE_PROXY), &[(silent(), 500, false)]),
        ("where somebody answered before, there is", Check::passing(KUBE_PROXY), &[(silent(), 16, true)]),
        (
            "it comes back after a minute at least",
            Check::passing(KUBE_PROXY),
            &[(failed(), 1, true), (passed(), 59, true), (passed(), 1, false)],
        ),
        (
            "and only if it has passed for ten seconds",
            Check::passing(KUBE_PROXY),
            &[
                (failed(), 60, true),
                (passed(), 10, true),
                (failed(), 1, true),
                (passed(), 10, true),
                (passed(), 1, false),
            ],
        ),
        (
            "endpoints: the controller goes first",
            Check::new(ENDPOINTS),
            &[(passed(), 1, false), (failed(), 5, false), (failed(), 1, true)],
        ),
        (
            "of an Announcement: it is asked before it fails, and silence is a failure",
            Check::new(thrice),
            &[(silent(), 2, false), (silent(), 1, true)],
        ),
        (
            "whatever is found, it is counted",
            Check::new(thrice),
            &[(silent(), 2, false), (failed(), 1, true)],
        ),
        (
            "in a row",
            Check::new(thrice),
            &[(failed(), 2, false), (passed(), 1, false), (failed(), 2, false), (failed(), 1, true)],
        ),
        (
            "it comes back after a minute at least",
            Check::new(thrice),
            &[(failed(), 3, true), (passed(), 59, true), (passed(), 1, false)],
        ),
        (
            "or after longer than that",
            Check::new(longer),
            &[(failed(), 3, true), (passed(), 63, true), (passed(), 1, false)],
        ),
        (
            "and passes for longer",
            Check::new(longer),
            &[(failed(), 63, true), (passed(), 14, true), (passed(), 1, false)],
        ),
    ];
    let begin = Instant::now();
    for (what, mut check, spans) in rows {
        let mut seconds = 0;
        for (nth, (finding, length, fails)) in spans.iter().enumerate() {
            for _ in 0..*length {
                check.note(finding.clone(), begin + Duration::from_secs(seconds));
                seconds += 1;
            }
            assert_eq!(check.failure().is_some(), *fails, "{what}: span {nth}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 1.2 ms each

    // shows: field-reports F-44
    #[test]
    fn whatever_is_found_a_check_fails_at_most_once_a_minute(
        findings in prop::collection::vec((prop_oneof![Just(passed()), Just(failed()), Just(silent())], 1..20u64), 1..200),
        patience in prop_oneof![Just(KUBE_PROXY), (1..5u32).prop_map(|times| Patience::times(times, Duration::ZERO))],
    ) {
        let (begin, mut check) = (Instant::now(), Check::passing(patience));
        let (mut seconds, mut falls) = (0, Vec::new());
        for (finding, length) in findings {
            for _ in 0..length {
                let before = check.failure().is_some();
                check.note(finding.clone(), begin + Duration::from_secs(seconds));
                if !before && check.failure().is_some() {
                    falls.push(seconds);
                }
                seconds += 1;
            }
        }
        prop_assert!(falls.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{falls:?}");
    }
}

// shows: field-reports F-71; placement P-16
#[test]
fn kube_proxy_is_waited_for_after_a_reboot_and_only_then() {
    let folder = Folder::new("memory");
    let now = Instant::now();
    let open = |boot: &str| KubeProxyMemory::of_boot(&folder.0, boot.to_owned());
    assert_eq!(open("one").check(KUBE_PROXY, now), Check::new(KUBE_PROXY), "nothing is known of it");
    open("one").note_answer();
    assert_eq!(open("one").check(KUBE_PROXY, now), Check::passing(KUBE_PROXY), "the agent was restarted");
    let mut rebooted = open("two").check(KUBE_PROXY, now);
    assert!(rebooted.failure().is_some_and(|why| why.contains("since this machine was started")));
    for second in 0..11 {
        assert!(rebooted.failure().is_some(), "its rules take a moment");
        rebooted.note(passed(), now + Duration::from_secs(second));
    }
    assert_eq!(rebooted, Check::passing(KUBE_PROXY));
    // What is in the way of the file is no reason to stop.
    fs::remove_dir_all(&folder.0).expect("removed");
    open("three").note_answer();
}

fn assignment(priority: u8, before: u8, ports: &[u16]) -> Assignment {
    Assignment {
        forced: [].into(),
        virtual_router: "r".into(),
        interface: "eth0".into(),
        vrid: 64,
        priority,
        interval_milliseconds: 100,
        source: "192.0.2.1".parse().expect("an address"),
        peers: BTreeSet::new(),
        addresses: BTreeSet::new(),
        unproven: BTreeSet::new(),
        preferred: BTreeSet::new(),
        before,
        health_check_node_ports: ports.iter().copied().collect(),
        preempt_delay_seconds: 0,
        transport: windlass_api::Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: windlass_api::AddressConflictPolicy::Defend,
        connections: windlass_api::ConnectionPolicy::Forward,
        external_traffic_policy: windlass_api::ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    }
}

/// A check of what listens at this port of the node.
fn check(port: u16) -> NodeCheck {
    serde_json::from_value(json!({ "tcpSocket": { "port": port } })).expect("a check")
}

fn failing(port: u16, spares_active: bool) -> FailedChecks {
    let failed = FailedNodeCheck { reason: "refused".to_owned(), spares_active };
    FailedChecks { of_announcements: [(check(port), failed)].into(), ..FailedChecks::default() }
}

#[test]
fn a_node_that_fails_ranks_below_all_that_pass_and_all_that_fail_rank_as_before() {
    let kube_proxy = FailedChecks { kube_proxy: Some("dead".into()), ..FailedChecks::default() };
    let endpoints = FailedChecks { endpoints: [(30000, "503".to_owned())].into(), ..FailedChecks::default() };
    let announcement = failing(22, false);
    let ranked = |before: u8| Assignment {
        checks: [check(22), check(23)].into(),
        ..assignment(priorities::good(before.into()), before, &[30000, 30001])
    };
    let ranking: Vec<Assignment> = (0..5).map(ranked).collect();
    for failing in [&kube_proxy, &endpoints, &announcement] {
        for is_active in [false, true] {
            let lowered: Vec<u8> = ranking.iter().map(|one| failing.priority(one, is_active)).collect();
            assert_eq!(lowered, [30, 29, 28, 27, 26]);
        }
    }
    assert_eq!(endpoints.priority(&assignment(254, 0, &[30001]), false), 254, "another Service");
    assert_eq!(announcement.priority(&assignment(254, 0, &[]), false), 254, "another Announcement");
    assert_eq!(FailedChecks::default().priority(&ranking[0], false), 254);
    assert_eq!(kube_proxy.priority(&assignment(25, 3, &[]), false), 25, "never higher");
    assert_eq!(failing(22, true).priority(&ranking[0], true), 254, "the Active is spared");
    assert_eq!(failing(22, true).priority(&ranking[0], false), 30, "and nobody else");
}

/// For adverts of this interval.
fn late(interval: u32, spares_active: bool) -> FailedChecks {
    let failed = FailedNodeCheck { reason: "130 ms".to_owned(), spares_active };
    FailedChecks { late: [(interval, failed)].into(), ..FailedChecks::default() }
}

#[test]
fn a_late_node_ranks_below_good_ones_and_above_those_that_are_about_to_serve_no_more() {
    let first = assignment(priorities::good(0), 0, &[30000]);
    let as_both = |failed: FailedChecks| [false, true].map(|active| failed.priority(&first, active));
    assert_eq!(as_both(late(100, false)), [90, 90]);
    assert_eq!(as_both(late(100, true)), [90, 254], "the Active is spared");
    assert_eq!(as_both(late(30, false)), [254, 254], "adverts of another interval");
    let unfit_too = FailedChecks { kube_proxy: Some("dead".into()), ..late(100, false) };
    assert_eq!(as_both(unfit_too), [30, 30], "late and without a kube-proxy");
    // Two replicas are rolled out: the old pod ends where nothing is wrong, and the new one is served by a node that is late.
    let ending = assignment(priorities::fair(0), 1, &[30000]);
    let served = late(100, false).priority(&first, false);
    assert!(
        served > FailedChecks::default().priority(&ending, true),
        "or the address waits until the old pod is gone"
    );
    assert_eq!(late(100, false).priority(&ending, true), ending.priority, "late, and its pod ends");
    let all = (0..5).map(|before| {
        late(100, false).priority(&assignment(priorities::good(before.into()), before, &[]), false)
    });
    assert_eq!(all.collect::<Vec<_>>(), [90, 89, 88, 87, 86], "where all are late they rank as before");
}

// shows: placement P-17; field-reports F-79
#[test]
fn a_node_that_does_not_forward_is_unfit_where_that_matters_and_one_without_a_pod_network_keeps_what_it_has()
{
    let of = |source: &str| Assignment { source: source.parse().unwrap(), ..assignment(254, 0, &[]) };
    let [v4, v6] = ["198.51.100.1", "fe80::1"].map(of);
    let segment = (windlass_engine::Family::V6, v6.interface.clone());
    let forwarding =
        FailedChecks { forwarding: [(segment, "it is 0".into())].into(), ..FailedChecks::default() };
    for is_active in [false, true] {
        let priorities = [&v4, &v6].map(|one| forwarding.priority(one, is_active));
        assert_eq!(priorities, [254, 30], "Active: {is_active}");
    }
    let elsewhere = Assignment { interface: "eth9".to_owned(), ..v6.clone() };
    assert_eq!(forwarding.priority(&elsewhere, false), 254, "another interface");
    let said: Vec<String> = forwarding.sentences().collect();
    assert_eq!(said, [format!("forwarding of IPv6 from {}: it is 0", v6.interface)]);
    let network = FailedChecks { network: Some("no CNI".into()), ..FailedChecks::default() };
    assert_eq!([false, true].map(|is_active| network.priority(&v4, is_active)), [30, 254]);
    assert!(network.spares_active(), "so that the priority follows who is Active");
}

#[test]
fn forwarding_counts_by_the_second_reading_and_is_forgotten_with_the_virtual_router() {
    let now = Instant::now();
    let (monitor, failed) = HealthMonitor::new(None, Path::new("/nonexistent"), now);
    let mut monitor = monitor.forwarding;
    let segment = (windlass_engine::Family::V4, "eth0".to_owned());
    let mut judge = |finding: Option<Finding>, second: u64| {
        let findings = finding.map(|finding| (segment.clone(), finding)).into_iter().collect();
        monitor.judge(findings, now + Duration::from_secs(second));
        !failed.borrow().forwarding.is_empty()
    };
    let seen = [
        judge(Some(passed()), 0),
        judge(Some(self::failed()), 1),
        judge(Some(self::failed()), 2),
        judge(Some(passed()), 3),
        judge(None, 4),
    ];
    assert_eq!(seen, [false, false, true, true, false]);
}

#[test]
fn checks_are_made_where_the_node_is_believed_to_serve_and_forgotten_with_their_service() {
    let now = Instant::now();
    let (monitor, failed) = HealthMonitor::new(None, Path::new("/nonexistent"), now);
    let mut monitor = monitor.kube_proxy;
    let mut desired = Desired {
        assignments: vec![assignment(254, 0, &[1, 2]), assignment(60, 3, &[3]), assignment(29, 1, &[4])],
        ..Desired::default()
    };
    assert_eq!(ports(&desired), [1, 2].into());
    let mut judge = |findings: &[(u16, Finding)], second: u64| {
        let endpoints = findings.iter().map(|(port, finding)| (*port, (finding.clone(), None))).collect();
        monitor.judge(Answers { kube_proxy: None, endpoints }, now + Duration::from_secs(second));
        failed.borrow().endpoints.keys().copied().collect::<Vec<_>>()
    };
    for second in 0..5 {
        assert!(judge(&[(1, self::failed()), (2, passed())], second).is_empty());
    }
    assert_eq!(judge(&[(1, self::failed()), (2, passed())], 5), [1]);
    desired.assignments.clear();
    assert!(ports(&desired).is_empty());
    assert!(judge(&[], 6).is_empty());
    assert!(judge(&[(1, self::failed())], 7).is_empty(), "it begins anew");
}

#[tokio::test]
async fn who_answers_is_asked_and_who_does_not_is_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
            b"HTTP/1.1 503 X\r\n\r\n",
            b"\0\0\0",
            b"",
        ] {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /healthz HTTP/1.1\r\n"), "{request:?}");
            stream.write_all(answer).await.expect("written");
        }
        listener
    });
    assert_eq!(request::health(address).await, Finding::Passed);
    let said = format!("it answers 503 Service Unavailable at http://{address}/healthz");
    assert_eq!(request::health(address).await, Finding::Failed(said));
    for _ in 0..2 {
        assert!(matches!(request::health(address).await, Finding::Silent(_)), "no HTTP");
    }
    drop(server.await.expect("a server"));
    let nobody = request::first_health(&[address.ip()], address.port()).await;
    assert!(matches!(&nobody, (Finding::Silent(why), None) if why.contains("refused")), "{nobody:?}");
}

#[test]
fn a_node_without_pods_of_thousands_of_services_says_so_in_a_few_sentences() {
    let endpoints = (1..=3000).map(|port| (port, "no endpoint here".to_owned())).collect();
    let all = FailedChecks { endpoints, kube_proxy: Some("no answer".to_owned()), ..failing(22, false) };
    let said: Vec<_> = all.sentences().collect();
    assert_eq!(said.len(), 2 + MOST_TOLD + 1);
    assert_eq!(
        [said[0].as_str(), said[1].as_str(), said[34].as_str()],
        ["kube-proxy: no answer", "the check tcpSocket localhost:22: refused", "2968 further health checks"]
    );
    let few = FailedChecks {
        endpoints: all.endpoints.into_iter().take(MOST_TOLD).collect(),
        ..FailedChecks::default()
    };
    assert_eq!(few.sentences().count(), MOST_TOLD);
}
