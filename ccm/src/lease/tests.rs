use std::future::pending;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::decide::shown;
use super::{Decision, ElectionError, ElectionOptions, Elector, Observed, decide};
use crate::metrics::Metrics;
use crate::testing::apiserver::ApiServer;

const LEASE: &str = "leases/kube-system/cloud-controller-manager";
const DURATION: Duration = Duration::from_secs(15);

fn record(holder: &str, seconds: Option<i32>, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: seconds,
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

// shows: ccm-contract E-04, S-61
#[test]
fn who_may_lead() {
    let at = Instant::now();
    let after = |seconds| at + Duration::from_secs(seconds);
    let rows = [
        ("no lease", None, 0, Decision::Create),
        ("ours", Some(record("me", Some(15), 3)), 0, Decision::Renew),
        ("ours, run out", Some(record("me", Some(15), 3)), 60, Decision::Renew),
        ("released", Some(record("", Some(1), 3)), 0, Decision::Acquire { transitions: 4 }),
        ("never held", Some(LeaseSpec::default()), 0, Decision::Acquire { transitions: 1 }),
        ("another's, fresh", Some(record("you", Some(15), 3)), 14, Decision::Wait { until: after(15) }),
        ("another's, run out", Some(record("you", Some(15), 3)), 15, Decision::Acquire { transitions: 4 }),
        (
            "another's, its own duration",
            Some(record("you", Some(30), 3)),
            29,
            Decision::Wait { until: after(30) },
        ),
        ("another's, no duration", Some(record("you", None, 3)), 14, Decision::Wait { until: after(15) }),
        (
            "another's, senseless duration",
            Some(record("you", Some(-1), 3)),
            15,
            Decision::Acquire { transitions: 4 },
        ),
        ("another's, for no time", Some(record("you", Some(0), 3)), 14, Decision::Wait { until: after(15) }),
        (
            "another's, for decades",
            Some(record("you", Some(i32::MAX), i32::MAX)),
            3599,
            Decision::Wait { until: after(3600) },
        ),
        (
            "another's, for decades, an hour old",
            Some(record("you", Some(i32::MAX), i32::MAX)),
            3600,
            Decision::Acquire { transitions: i32::MAX },
        ),
    ];
    for (what, spec, seconds, expected) in rows {
        let observed = spec.map(|spec| Observed { spec, at });
        assert_eq!(decide("me", observed.as_ref(), after(seconds), DURATION), expected, "{what}");
    }
}

// shows: ccm-contract S-61
#[test]
fn a_record_is_as_old_as_its_last_change_was_seen_here() {
    let start = Instant::now();
    let later = start + Duration::from_secs(10);
    let first = Observed::next(None, record("you", Some(15), 0), start);
    assert_eq!(Observed::next(Some(&first), record("you", Some(15), 0), later).at, start);
    assert_eq!(Observed::next(Some(&first), record("you", Some(15), 1), later).at, later);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
    let rows = [
        ("", seconds(15), seconds(10), seconds(2), "the identity is empty"),
        (
            "me",
            seconds(10),
            seconds(10),
            seconds(2),
            "renew deadline 10s is not shorter than lease duration 10s",
        ),
        (
            "me",
            seconds(15),
            seconds(10),
            seconds(10),
            "retry period 10s is not between 0 and renew deadline 10s",
        ),
        ("me", seconds(15), seconds(10), seconds(0), "retry period 0ns"),
        ("me", seconds(4000), seconds(3600), seconds(2), "renew deadline 3600s is not shorter than an hour"),
        ("me", millis(999), millis(600), millis(200), "lease duration 999ms is shorter than one second"),
    ];
    for (identity, lease_duration, renew_deadline, retry_period, reason) in rows {
        let options = ElectionOptions {
            lease_duration,
            renew_deadline,
            retry_period,
            ..ElectionOptions::new(identity)
        };
        let error = options.check().expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(ElectionOptions::new("me").check().is_ok());
    let shortest = ElectionOptions {
        lease_duration: seconds(1),
        renew_deadline: millis(600),
        retry_period: millis(200),
        ..ElectionOptions::new("me")
    };
    assert!(shortest.check().is_ok());
}

struct Run {
    token: CancellationToken,
    task: tokio::task::JoinHandle<Result<Option<()>, ElectionError>>,
    leading: CancellationToken,
}

/// A candidate whose work runs until its token is cancelled.
fn candidate(api: &ApiServer, identity: &str) -> Run {
    let (token, leading) = (CancellationToken::new(), CancellationToken::new());
    let elector = Elector::new(api.client(), ElectionOptions::new(identity))
        .with_metrics(Metrics::unregistered("cloud-controller-manager").election);
    let (run, started) = (token.clone(), leading.clone());
    let task = tokio::spawn(async move {
        let work = |stop: CancellationToken| async move {
            started.cancel();
            stop.cancelled().await;
        };
        elector.run(run, work).await
    });
    Run { token, task, leading }
}

fn holder(api: &ApiServer) -> String {
    let lease = api.get(LEASE).unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_the_second_waits() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let second = candidate(&api, "two");
    sleep(Duration::from_mins(5)).await;
    assert!(!second.leading.is_cancelled());
    assert_eq!(holder(&api), "one");
    assert!(
        api.events().contains(&"Normal LeaderElection one became leader".to_owned()),
        "{:?}",
        api.events()
    );
}

// shows: ccm-contract E-01
#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_leader_dies() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let second = candidate(&api, "two");
    sleep(Duration::from_secs(30)).await;
    first.task.abort();
    let died = Instant::now();
    second.leading.cancelled().await;
    let took = died.elapsed();
    assert!(took >= Duration::from_secs(11) && took <= Duration::from_secs(19), "{took:?}");
    let lease = api.get(LEASE).expect("the lease");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(holder(&api), "two");
}

// shows: ccm-contract E-09
#[tokio::test(start_paused = true)]
async fn a_clean_exit_releases_the_lease_and_the_standby_need_not_wait() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let second = candidate(&api, "two");
    sleep(Duration::from_secs(30)).await;
    first.token.cancel();
    assert!(matches!(first.task.await, Ok(Ok(Some(())))));
    let left = Instant::now();
    second.leading.cancelled().await;
    assert!(left.elapsed() <= Duration::from_secs(2), "{:?}", left.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_when_told() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let second = candidate(&api, "two");
    sleep(Duration::from_secs(5)).await;
    second.token.cancel();
    assert!(matches!(second.task.await, Ok(Ok(None))));
}

// shows: ccm-contract E-02
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_may_lead() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    sleep(Duration::from_secs(30)).await;
    let cut = Instant::now();
    api.set_silent(true);
    let error = first.task.await.expect("no panic").expect_err("lost");
    let took = cut.elapsed();
    assert!(took <= Duration::from_secs(10), "{took:?}: another may lead after 15 s");
    assert!(took >= Duration::from_secs(8), "{took:?}: a short outage is survived");
    let text = error.to_string();
    assert!(text.starts_with("leaderelection lost: lease kube-system/cloud-controller-manager"), "{text}");
    assert!(text.contains("no answer from the API server"), "{text}");
}

/// One address of several API servers has gone from one that hangs to another.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_never_answered_leaves_time_for_another() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    sleep(Duration::from_secs(30)).await;
    api.set_silent(true);
    sleep(Duration::from_secs(4)).await;
    api.lose_unanswered();
    sleep(Duration::from_mins(1)).await;
    assert!(!first.task.is_finished());
    assert_eq!(holder(&api), "one");
}

/// etcd has no leader for a while, and then the API server hangs until its address is another's: one renewal is answered late, and the
/// next one never.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_late_leaves_time_for_one_that_is_never_answered() {
    for tenths in (0..50).step_by(2) {
        let api = ApiServer::default();
        let first = candidate(&api, "one");
        first.leading.cancelled().await;
        sleep(Duration::from_millis(9900)).await;
        api.set_silent(true);
        sleep(Duration::from_millis(200 + 100 * tenths)).await;
        api.answer_unanswered();
        sleep(Duration::from_secs(3)).await;
        api.lose_unanswered();
        sleep(Duration::from_mins(1)).await;
        assert!(!first.task.is_finished(), "answered after {tenths} tenths of a second");
        assert_eq!(holder(&api), "one");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_api_server_is_survived() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    sleep(Duration::from_secs(30)).await;
    for _ in 0..3 {
        api.fail("update", LEASE, 500);
    }
    sleep(Duration::from_mins(1)).await;
    assert!(!first.task.is_finished());
    assert_eq!(holder(&api), "one");
}

// shows: ccm-contract E-02
#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_is_lost_at_once() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    api.edit(LEASE, &json!({ "spec": { "holderIdentity": "two", "leaseDurationSeconds": 15 } }));
    let taken = Instant::now();
    let error = first.task.await.expect("no panic").expect_err("lost");
    assert!(error.to_string().contains("is held by two now"), "{error}");
    assert!(taken.elapsed() <= Duration::from_secs(2));
    assert_eq!(holder(&api), "two", "not overwritten");
}

// shows: ccm-contract E-06
#[tokio::test(start_paused = true)]
async fn a_foreign_program_that_holds_the_lease_is_named_with_the_remedy_until_it_has_ended() {
    let api = ApiServer::default();
    let held_by = |holder: &str, program: &str| {
        let fields = json!({ "f:spec": { "f:renewTime": {} } });
        let note = json!({ "manager": program, "time": "2026-01-01T00:00:00Z", "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": fields });
        json!({ "metadata": { "managedFields": [note] }, "spec": { "holderIdentity": holder, "leaseDurationSeconds": 3600 } })
    };
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    first.token.cancel();
    first.task.await.expect("no panic").expect("a clean end");

    api.edit(LEASE, &held_by("server-1_4b1c", "k3s"));
    let elector = Elector::new(api.client(), ElectionOptions::new("two")).with_program("windlass");
    let health = elector.lease_health();
    let token = CancellationToken::new();
    let waiting = tokio::spawn(async move { elector.run(token, |_| pending::<()>()).await });
    sleep(Duration::from_secs(10)).await;
    let told = health.check_holder().expect_err("held by another program");
    for words in ["kube-system/cloud-controller-manager", "server-1_4b1c", "program k3s", "--controllers"] {
        assert!(told.contains(words), "{words:?} is not in: {told}");
    }
    assert_eq!(health.check(Instant::now(), DURATION), Ok(()), "no new process would mend it");

    api.edit(LEASE, &held_by("node-1_77", "windlass"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(health.check_holder(), Ok(()), "another candidate");
    api.edit(LEASE, &held_by("server-1_4b1c", "k3s"));
    sleep(Duration::from_secs(10)).await;
    assert!(health.check_holder().is_err());
    api.edit(LEASE, &json!({ "spec": { "holderIdentity": "" } }));
    sleep(Duration::from_secs(10)).await;
    assert_eq!((holder(&api), health.check_holder()), ("two".to_owned(), Ok(())));
    waiting.abort();
}

#[test]
fn the_name_of_a_holder_is_shown_on_one_line_and_short() {
    assert_eq!(shown("node-1_4b1c"), "node-1_4b1c");
    assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
    let long = shown(&"x".repeat(100_000));
    assert_eq!(long, format!("{}… (99900 more characters)", "x".repeat(100)));
}

// shows: ccm-contract E-04
#[tokio::test(start_paused = true)]
async fn a_holder_with_a_monstrous_name_makes_no_monstrous_error() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let monster = "ä\n".repeat(500);
    api.edit(LEASE, &json!({ "spec": { "holderIdentity": monster, "leaseDurationSeconds": 30 } }));
    let text = first.task.await.expect("no panic").expect_err("lost").to_string();
    assert!(text.len() < 500 && !text.contains('\n'), "{text}");
    let second = candidate(&api, "two");
    second.leading.cancelled().await;
    assert_eq!(holder(&api), "two");
}

// shows: ccm-contract E-04
#[tokio::test(start_paused = true)]
async fn a_leader_goes_on_whatever_else_is_written_into_its_lease() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    let nonsense = [
        json!({ "leaseDurationSeconds": -1, "leaseTransitions": -7 }),
        json!({ "leaseDurationSeconds": i32::MAX, "leaseTransitions": i32::MAX }),
        json!({ "acquireTime": "0001-01-01T00:00:00.000000Z", "renewTime": "9999-12-31T23:59:59.999999Z" }),
        json!({ "acquireTime": "-001-12-31T10:00:00.000000Z", "renewTime": "10000-01-01T13:59:59.000000Z" }),
        json!({ "acquireTime": null, "renewTime": null, "leaseDurationSeconds": null }),
    ];
    for spec in nonsense {
        api.edit(LEASE, &json!({ "spec": spec }));
        sleep(Duration::from_secs(30)).await;
        assert!(!first.task.is_finished(), "{spec}");
        let lease = api.get(LEASE).expect("the lease");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 15, "{spec}");
    }
}

// shows: ccm-contract E-05
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_frozen_ends_when_it_wakes_and_does_not_renew() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    sleep(Duration::from_secs(1)).await;
    api.take_writes();
    // One step of the clock: nothing of the process runs in between, as if it was stopped. The lease is not run out yet.
    tokio::time::advance(Duration::from_secs(12)).await;
    let error = first.task.await.expect("no panic").expect_err("lost").to_string();
    assert!(error.ends_with("was not renewed for 10s: this process did not get to run"), "{error}");
    let writes = api.take_writes();
    assert!(writes.iter().all(|write| write.event().is_some()), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_by_reading_again() {
    let api = ApiServer::default();
    api.fail("create", "leases/kube-system", 409);
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    assert_eq!(holder(&api), "one");
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_on_the_lease_object_stays() {
    let api = ApiServer::default();
    api.put(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "cloud-controller-manager", "namespace": "kube-system", "labels": { "team": "a" } },
        "spec": { "holderIdentity": "" }
    }));
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(api.get(LEASE).expect("the lease")["metadata"]["labels"], json!({ "team": "a" }));
}

#[tokio::test(start_paused = true)]
async fn leading_work_that_ends_by_itself_ends_the_run() {
    let api = ApiServer::default();
    let elector = Elector::new(api.client(), ElectionOptions::new("one"));
    let answer = elector.run(CancellationToken::new(), |_| async { 7 }).await;
    assert!(matches!(answer, Ok(Some(7))));
    assert_eq!(holder(&api), "", "released");
    assert_eq!(api.get(LEASE).expect("the lease")["spec"]["leaseDurationSeconds"], 1);
}

// shows: ccm-contract E-03
#[tokio::test(start_paused = true)]
async fn a_leader_renews_without_reading_the_lease() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    for _ in 0..20 {
        api.fail("get", LEASE, 500);
    }
    sleep(Duration::from_mins(5)).await;
    assert!(!first.task.is_finished(), "it leads without reading the lease");
    assert_eq!(holder(&api), "one");
}

// shows: ccm-contract E-03
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_labels_is_kept_with_the_label() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    api.edit(LEASE, &json!({ "metadata": { "labels": { "team": "a" } } }));
    sleep(Duration::from_secs(30)).await;
    assert!(!first.task.is_finished(), "a label is no reason to stop");
    assert_eq!(api.get(LEASE).expect("the lease")["metadata"]["labels"], json!({ "team": "a" }));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_had_to_read_the_lease_is_counted_s_51() {
    let api = ApiServer::default();
    let metrics = Metrics::unregistered("cloud-controller-manager").election;
    let options = ElectionOptions::new("one");
    let elector = Elector::new(api.client(), options).with_metrics(metrics.clone());
    assert!(!metrics.is_master());
    let token = CancellationToken::new();
    let run = {
        let token = token.clone();
        tokio::spawn(async move { elector.run(token, |ended| async move { ended.cancelled().await }).await })
    };
    sleep(Duration::from_secs(30)).await;
    assert_eq!(metrics.slow_paths(), 0, "to get it is no renewal");
    assert!(metrics.is_master());
    api.fail("update", LEASE, 500);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(metrics.slow_paths(), 1);
    assert!(!run.is_finished());
    token.cancel();
    run.await.expect("no panic").expect("it let the lease go");
    assert!(!metrics.is_master());
}

// shows: ccm-contract E-07
#[tokio::test(start_paused = true)]
async fn others_are_never_promised_less_than_the_leader_takes() {
    for (duration, promised) in [(1_900, 2), (2_000, 2), (2_001, 3)] {
        let api = ApiServer::default();
        let options = ElectionOptions {
            lease_duration: Duration::from_millis(duration),
            renew_deadline: Duration::from_millis(1_800),
            retry_period: Duration::from_millis(100),
            ..ElectionOptions::new("one")
        };
        let elector = Elector::new(api.client(), options);
        let leading = elector.run(CancellationToken::new(), |_| async {
            api.get(LEASE).expect("a lease")["spec"]["leaseDurationSeconds"].as_u64()
        });
        assert_eq!(leading.await.expect("it leads"), Some(Some(promised)), "{duration} ms");
    }
}

// shows: ccm-contract E-08
#[tokio::test(start_paused = true)]
async fn a_renewal_counts_from_when_it_was_asked_for() {
    let api = ApiServer::default();
    let one = candidate(&api, "one");
    one.leading.cancelled().await;
    let began = Instant::now();
    // The first renewal begins after two seconds and is answered after five; the next one is not.
    sleep(Duration::from_secs(1)).await;
    api.set_silent(true);
    sleep(Duration::from_secs(4)).await;
    api.answer_unanswered();
    assert!(one.task.await.expect("it ends").is_err(), "the lease is lost");
    let limit = Duration::from_secs(13) + crate::apiserver::EVENT_TIMEOUT;
    let led = began.elapsed();
    assert!(led < limit, "{led:?}: others may lead 15 s after the renewal was asked for");
}

// shows: ccm-contract E-09
#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_silent_does_not_hold_up_the_end() {
    let api = ApiServer::default();
    let one = candidate(&api, "one");
    one.leading.cancelled().await;
    api.set_silent(true);
    let began = Instant::now();
    one.token.cancel();
    assert!(one.task.await.expect("it ends").is_ok());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

// shows: ccm-contract E-08
#[tokio::test(start_paused = true)]
async fn what_the_leader_started_is_told_that_the_lease_is_lost_and_health_follows_the_lease() {
    let api = ApiServer::default();
    let elector = Elector::new(api.client(), ElectionOptions::new("one"));
    let (lease_health, limit) = (elector.lease_health(), Duration::from_secs(5));
    let ill = |after: u64| lease_health.check(Instant::now() + Duration::from_secs(after), limit).is_err();
    assert!(!ill(60), "a standby is well");
    let (stopped, started) = (CancellationToken::new(), CancellationToken::new());
    let (told, ready) = (stopped.clone(), started.clone());
    let leading = tokio::spawn(async move {
        let work = |token: CancellationToken| async move {
            ready.cancel();
            tokio::spawn(async move {
                token.cancelled().await;
                told.cancel();
            });
            pending::<()>().await;
        };
        elector.run(CancellationToken::new(), work).await
    });
    started.cancelled().await;
    sleep(Duration::from_mins(1)).await;
    assert!(!ill(0) && ill(60), "it was renewed just now, and will not be for ever");
    api.edit(LEASE, &json!({ "spec": { "holderIdentity": "other" } }));
    assert!(leading.await.expect("it ends").is_err());
    stopped.cancelled().await;
    assert!(!ill(60), "it leads no longer");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_made_without_what_others_wrote_on_it() {
    let api = ApiServer::default();
    let first = candidate(&api, "one");
    first.leading.cancelled().await;
    api.edit(LEASE, &json!({ "metadata": { "labels": { "team": "a" } } }));
    sleep(Duration::from_secs(5)).await;
    api.delete(LEASE);
    sleep(Duration::from_secs(5)).await;
    assert!(!first.task.is_finished() && holder(&api) == "one");
    assert!(api.get(LEASE).expect("the lease")["metadata"]["labels"].is_null());
}
