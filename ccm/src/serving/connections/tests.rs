use std::sync::Mutex;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;
use crate::serving::HealthChecks;

/// What becomes of a connection whose client does this and then waits, and after how long. In virtual time.
async fn ended_after(said: &str, buffer: usize) -> (Result<(), String>, Duration, DuplexStream) {
    let mut registry = Registry::default();
    for index in 0..1000 {
        registry.register(format!("gauge_{index}"), "One of many", Gauge::<i64>::default());
    }
    let answers =
        Answers { gate: None, health: HealthChecks::new(), registry: Arc::new(Mutex::new(registry)) };
    let (mut client, server) = duplex(buffer);
    let begin = Instant::now();
    client.write_all(said.as_bytes()).await.unwrap();
    let ended = requests(server, Vec::new(), &answers).await;
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

#[test]
fn others_cannot_take_the_places_of_this_hosts_probes() {
    let room = Room::default();
    let other: IpAddr = "192.0.2.1".parse().unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| room.place(other)).collect();
    assert_eq!(taken.len(), OF_OTHERS);
    let here = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|here| room.place(here.parse().unwrap()));
    assert!(here.iter().all(Option::is_some));
    drop(taken);
    assert!(room.place("2001:db8::1".parse().unwrap()).is_some());
}
