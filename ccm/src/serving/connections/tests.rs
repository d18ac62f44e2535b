use prometheus::{Registry, register_int_gauge_with_registry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;
use crate::serving::{HealthChecks, Pages};

/// What becomes of a connection whose client does this and then waits, and after how long. In virtual time.
async fn ended_after(said: &str, buffer: usize) -> (Result<(), String>, Duration, DuplexStream) {
    let registry = Registry::new();
    for index in 0..1000 {
        register_int_gauge_with_registry!(format!("gauge_{index}"), "One of many", registry).unwrap();
    }
    let (health, pages) = (HealthChecks::new(), Pages::default());
    let handler = RequestHandler { auth_filter: None, health, registry, pages };
    let (mut client, server) = duplex(buffer);
    let begin = Instant::now();
    client.write_all(said.as_bytes()).await.unwrap();
    let ended = requests(server, &handler, None).await;
    (ended, begin.elapsed(), client)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_whole_request_ends_after_30_seconds() {
    for said in ["", "GET /healthz HT", "GET /healthz HTTP/1.1\r\nHost: x\r\n"] {
        let (_, after, _client) = ended_after(said, 4096).await;
        assert_eq!(after.as_secs(), 30, "{said:?}");
    }
    let (_, after, mut client) = ended_after("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 4096).await;
    assert_eq!(after.as_secs(), 30, "idle between two requests");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_its_answer_is_let_go() {
    let (ended, after, _client) = ended_after("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 4096).await;
    assert!(ended.unwrap_err().contains("did not take the answer"));
    assert_eq!(after, CONNECTION_LIMIT + REQUEST_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused_at_once() {
    let said = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(HEAD_LIMIT * 2));
    let (ended, after, _client) = ended_after(&said, said.len()).await;
    assert!(ended.is_err() && after < REQUEST_LIMIT, "{ended:?} after {after:?}");
}

// shows: ccm-contract H-03
#[tokio::test(start_paused = true)]
async fn what_follows_a_request_is_never_taken_for_more_than_it_is() {
    const ASK: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let post =
        |headers: &str, body: &str| format!("POST /healthz HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}");
    let length = |bytes: usize| format!("Content-Length: {bytes}\r\n");
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200));
    let table = [
        ("two requests", format!("{ASK}{ASK}"), "200 200"),
        ("a request as a body", post(&length(ASK.len()), ASK), "405"),
        ("a request behind a body", post(&length(2), &format!("xx{ASK}")), "405 200"),
        ("two lengths", post(&(length(0) + &length(ASK.len())), ASK), "400"),
        ("a length that is none", post("Content-Length: +0\r\n", ASK), "400"),
        ("an endless body", post("Content-Length: 18446744073709551615\r\n", ASK), "431"),
        ("a chunk that is none", post("Transfer-Encoding: chunked\r\n", &format!("zz\r\n{ASK}")), "405"),
        ("an encoding that is not known", post("Transfer-Encoding: chunked, gzip\r\n", ASK), "400"),
        ("a header before its name", format!("GET /healthz HTTP/1.1\r\n : x\r\n\r\n{ASK}"), "400"),
        ("a line in a header", "GET /healthz HTTP/1.1\r\nA: b\0c\r\n\r\n".to_owned(), "400"),
        ("many headers", many, "431"),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), ""),
        (
            "an upgrade",
            format!("GET /healthz HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n{ASK}"),
            "200 200",
        ),
    ];
    let mut wrong = Vec::new();
    for (what, said, codes) in table {
        let (_, _, mut client) = ended_after(&said, 64 * 1024).await;
        let mut handler = String::new();
        client.read_to_string(&mut handler).await.unwrap();
        let lines = handler.split("HTTP/1.1 ").skip(1);
        let found: Vec<_> = lines.filter_map(|line| line.split(' ').next()).collect();
        if found.join(" ") != codes {
            wrong.push((what, codes, found.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

// shows: ccm-contract H-03
#[test]
fn others_cannot_take_the_places_of_this_hosts_probes() {
    let slots = ConnectionSlots::default();
    let node: IpAddr = "192.0.2.7".parse().unwrap();
    let others = (0..=u8::MAX).map(|last| IpAddr::from([198, 51, 100, last]));
    let taken: Vec<_> = others.map_while(|other| slots.acquire(other, Some(node))).collect();
    assert_eq!(taken.len(), OF_OTHERS);
    let here =
        ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|here| slots.acquire(here.parse().unwrap(), None));
    assert!(here.iter().all(Option::is_some));
    // The address of a pod with hostNetwork is its node's.
    assert!(slots.acquire(node, Some(node)).is_some() && slots.acquire(node, None).is_none());
    drop(taken);
    assert!(slots.acquire("2001:db8::1".parse().unwrap(), Some(node)).is_some());
}

#[test]
fn one_client_cannot_take_the_places_of_others() {
    let slots = ConnectionSlots::default();
    let scraper: IpAddr = "192.0.2.9".parse().unwrap();
    let all_of = |client: &str, mapped: &str| {
        let peers = [client, mapped].map(|peer| peer.parse::<IpAddr>().unwrap());
        let turns = peers.into_iter().cycle();
        turns.map_while(|peer| slots.acquire(peer, None)).collect::<Vec<_>>()
    };
    // The same host in both notations, and all addresses of one /64.
    let pairs = [("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::ffff:2")];
    for (one, other) in pairs {
        let taken = all_of(one, other);
        assert_eq!(taken.len(), OF_ONE_CLIENT, "{one}");
        assert!(slots.acquire(scraper, None).is_some(), "{one}");
        drop(taken);
        assert!(slots.acquire(one.parse().unwrap(), None).is_some(), "{one}");
    }
    assert!(slots.by_client.lock().unwrap().is_empty(), "clients without a connection are not kept");
    assert_eq!(slots.others.available_permits(), OF_OTHERS);
}
