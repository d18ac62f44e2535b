use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Error, Event, WatchOptions, watch};
use crate::testing::apiserver::ApiServer;
use crate::testing::faults::{Executed, Fault};
use crate::testing::{lb, with};

/// Takes in what the watch shows until `last` is among it, and returns the names that are known then.
async fn known_when(api: &ApiServer, last: &str) -> Vec<String> {
    let mut events = watch::<Service>(&api.client(), WatchOptions::default());
    let name = |service: &Service| service.metadata.name.clone().unwrap_or_default();
    let (mut known, mut incoming) = (Vec::new(), Vec::new());
    let limit = Instant::now() + Duration::from_mins(10);
    while !known.iter().any(|name| name == last) {
        let event = timeout(limit - Instant::now(), events.next()).await;
        let event =
            event.unwrap_or_else(|_| panic!("{last} was never shown: {known:?} {:?}", api.requests()));
        match event.expect("a watch does not end") {
            Ok(Event::Init) => incoming.clear(),
            Ok(Event::InitApply(service)) => incoming.push(name(&service)),
            Ok(Event::InitUnreadable(_)) | Err(_) => {}
            Ok(Event::InitDone) => known.clone_from(&incoming),
            Ok(Event::Apply(service)) => known.push(name(&service)),
            Ok(Event::Delete(service)) => known.retain(|known| *known != name(&service)),
        }
    }
    known.sort();
    known.dedup();
    known
}

#[tokio::test(start_paused = true)]
async fn whatever_one_answer_is_all_is_shown_in_the_end_and_few_calls_are_made() {
    for fault in Fault::ALL {
        for at in 0..4 {
            let api = ApiServer::default();
            api.put(lb("a"));
            api.fault_at(at, fault, Executed::No);
            let writer = api.clone();
            tokio::spawn(async move {
                for name in ["b", "c"] {
                    tokio::time::sleep(Duration::from_mins(1)).await;
                    writer.put(lb(name));
                }
            });
            let known = known_when(&api, "c").await;
            assert_eq!(known, ["a", "b", "c"], "{fault:?} of request {at}");
            let calls = api.requests();
            assert!(calls.len() <= 7, "{fault:?} of request {at}: {calls:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_never_answers_well_is_asked_less_and_less() {
    for fault in Fault::ALL {
        let api = ApiServer::default();
        api.put(lb("a"));
        // The first list is answered, so that watches go wrong too.
        for at in 1..2000 {
            api.fault_at(at, fault, Executed::No);
        }
        let mut events = watch::<Service>(&api.client(), WatchOptions::default());
        let mut take = async |time| {
            let before = api.request_count();
            let end = Instant::now() + time;
            while timeout(end - Instant::now(), events.next()).await.is_ok() {}
            api.request_count() - before
        };
        let (first, later) = (take(Duration::from_mins(2)).await, take(Duration::from_mins(10)).await);
        assert!(first <= 12 && later <= 22, "{fault:?}: {first} in 2 minutes, then {later} in 10");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_the_api_server_asks_for_is_kept() {
    let api = ApiServer::default();
    api.fault_at(0, Fault::TooMany(70), Executed::No);
    api.put(lb("a"));
    let began = Instant::now();
    known_when(&api, "a").await;
    assert!(began.elapsed() >= Duration::from_secs(70), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_hides_no_other() {
    let api = ApiServer::default();
    api.put(lb("a"));
    api.put(with(lb("bad"), &json!({ "spec": { "ports": "none" } })));
    let writer = api.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        writer.put(with(lb("worse"), &json!({ "spec": { "ports": 7 } })));
        writer.put(lb("z"));
    });
    assert_eq!(known_when(&api, "z").await, ["a", "z"]);
    assert_eq!(api.requests().len(), 2, "{:?}", api.requests());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_idle_is_taken_up_again_and_lists_nothing() {
    for bookmarks in [None, Some(Duration::from_mins(1))] {
        let api = ApiServer::default();
        api.send_bookmarks(bookmarks);
        let mut events = watch::<Service>(&api.client(), WatchOptions::default());
        drop(timeout(Duration::from_hours(1), async { while events.next().await.is_some() {} }).await);
        let calls = api.requests();
        assert_eq!(calls.iter().filter(|call| !call.ends_with("(watch)")).count(), 1, "{calls:?}");
        assert!(calls.len() <= 14, "{calls:?}");
    }
}

/// Seconds until a watch of 900 s finds that its API server, which sends bookmarks each so many seconds, has stopped to send `cut` seconds
/// after the start. One second before, an object changed.
async fn silence_found(bookmarks: Option<u64>, cut: u64) -> u64 {
    let api = ApiServer::default();
    api.send_bookmarks(bookmarks.map(Duration::from_secs));
    let (client, number) = api.numbered_client();
    let mut events = watch::<Service>(&client, WatchOptions { seconds: 900, ..WatchOptions::default() });
    let began = Instant::now();
    tokio::spawn({
        let api = api.clone();
        async move {
            sleep_until(began + Duration::from_secs(cut - 1)).await;
            api.put(lb("a"));
            sleep_until(began + Duration::from_secs(cut)).await;
            api.cut_off(number);
        }
    });
    loop {
        if let Some(Err(Error::Timeout(_))) = events.next().await {
            return began.elapsed().as_secs() - cut;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_stops_to_send_is_found_by_its_bookmarks_or_by_the_end_of_the_watch() {
    for (bookmarks, cut, within) in [
        (Some(60), 70, 90),
        (Some(60), 600, 90),
        (Some(60), 850, 55),
        // None was sent yet, or there is one just before the end.
        (Some(60), 30, 875),
        (Some(895), 897, 8),
        (None, 300, 605),
        // What was sent late does not make the watch longer.
        (None, 890, 15),
    ] {
        let found = silence_found(bookmarks, cut).await;
        assert!(found <= within && within <= found + 2, "{bookmarks:?}, {cut}: {found} s, not {within}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_after_one_that_had_them_is_left_to_its_end() {
    let api = ApiServer::default();
    api.send_bookmarks(Some(Duration::from_mins(1)));
    let mut events = watch::<Service>(&api.client(), WatchOptions::default());
    let mut pass = async |time| drop(timeout(time, async { while events.next().await.is_some() {} }).await);
    pass(Duration::from_secs(285)).await;
    api.send_bookmarks(None);
    pass(Duration::from_mins(30)).await;
    let calls = api.requests();
    assert!(calls[1..].iter().all(|call| call.ends_with("(watch)")) && calls.len() <= 9, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_api_server_does_not_have_is_told_with_the_remedy() {
    let api = ApiServer::default();
    api.fault_at(0, Fault::Status(404), Executed::No);
    let mut events = watch::<Service>(&api.client(), WatchOptions::default());
    let error = loop {
        if let Some(Err(error)) = events.next().await {
            break error.to_string();
        }
    };
    assert!(error.ends_with("if a CustomResourceDefinition makes it, apply that)"), "{error}");
}

/// As behind a load balancer that ends idle connections, or while the address of the API servers moves again and again.
#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_once_a_minute_is_taken_up_again_at_once_and_lists_nothing() {
    let api = ApiServer::default();
    api.break_idle_watches(Duration::from_mins(1));
    let mut events = watch::<Service>(&api.client(), WatchOptions::default());
    drop(timeout(Duration::from_hours(1), async { while events.next().await.is_some() {} }).await);
    let calls = api.requests();
    let watches = calls.iter().filter(|call| call.ends_with("(watch)")).count();
    let asked_for_version = calls.iter().filter(|call| call.ends_with("(one)")).count();
    assert!(watches >= 59, "{watches} in an hour");
    assert_eq!(calls.len() - watches - asked_for_version, 1, "{calls:?}");
}

/// What is asked for, up to the third list: `L` a list, `W` a watch, `V` the version alone.
async fn asked(fault: Fault, times: usize) -> String {
    let api = ApiServer::default();
    api.put(lb("a"));
    for at in 1..=times {
        api.fault_at(at, fault, Executed::No);
    }
    let writer = api.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(2)).await;
        writer.put(lb("z"));
    });
    known_when(&api, "z").await;
    let letter = |call: &String| match call.rsplit_once(' ') {
        Some((_, "(watch)")) => 'W',
        Some((_, "(one)")) => 'V',
        _ => 'L',
    };
    api.requests().iter().map(letter).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_taken_up_where_it_was_unless_its_version_is_refused() {
    for (fault, times, expected) in [
        (Fault::Status(500), 1, "LWVW"),
        (Fault::Status(500), 3, "LWVVVW"),
        (Fault::Status(500), 4, "LWVVVLW"),
        (Fault::TooMany(1), 2, "LWVVW"),
        (Fault::ErrorEvent(500), 1, "LWVW"),
        (Fault::Reset, 1, "LWVW"),
        (Fault::Status(410), 1, "LWLW"),
        (Fault::ErrorEvent(410), 1, "LWLW"),
        (Fault::Status(403), 1, "LWLW"),
    ] {
        assert_eq!(asked(fault, times).await, expected, "{fault:?}, {times} times");
    }
}

/// A server with `a`, `b` and `c` is restored after a minute to what it held before `b`, and is given `d` after two. `refused`: so
/// many requests fail after the restore.
fn restored(refused: usize) -> ApiServer {
    let api = ApiServer::default();
    api.put(lb("a"));
    let saved = api.version();
    for name in ["b", "c"] {
        api.put(lb(name));
    }
    let writer = api.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        (0..refused).for_each(|at| writer.fault_at(at, Fault::Status(500), Executed::No));
        writer.restore(saved);
        tokio::time::sleep(Duration::from_mins(1)).await;
        writer.put(lb("d"));
    });
    api
}

// shows: threats T-28
#[tokio::test(start_paused = true)]
async fn what_a_restored_etcd_has_forgotten_is_forgotten_also_if_it_does_not_answer_at_first() {
    for refused in [0, 1, 4, 9] {
        assert_eq!(known_when(&restored(refused), "d").await, ["a", "d"], "{refused} refused");
    }
}

#[tokio::test(start_paused = true)]
async fn that_what_was_shown_is_undone_is_said_once() {
    for refused in [0, 4] {
        let api = restored(refused);
        let mut events = watch::<Service>(&api.client(), WatchOptions::default());
        let mut said = Vec::new();
        let limit = Instant::now() + Duration::from_mins(30);
        while let Ok(event) = timeout(limit - Instant::now(), events.next()).await {
            if let Some(Err(Error::Restored { current, shown })) = event {
                said.push((current, shown));
            }
        }
        assert_eq!(said, [(1, 3)], "{refused} refused");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_shown_as_such() {
    let api = ApiServer::default();
    api.put(lb("a"));
    let writer = api.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        writer.delete("services/default/a");
        writer.put(lb("z"));
    });
    assert_eq!(known_when(&api, "z").await, ["z"]);
}
