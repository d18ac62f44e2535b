use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::try_join;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::client::Body;
use prometheus::{Registry, TextEncoder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::time::Instant;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use super::*;

fn shown(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).expect("text")
}

fn assert_shows(registry: &Registry, lines: &[&str]) {
    let text = shown(registry);
    for line in lines {
        assert!(text.lines().any(|shown| shown == *line), "{line} is missing in\n{text}");
    }
}

/// A service that answers each request after a second with its status code, or never with 0.
fn metrics_layer(
    metrics: &ClientMetrics,
    codes: &[u16],
) -> impl tower::Service<Request<Body>, Response = Response<metrics_layer::CountedBody<Body>>, Error = Infallible>
{
    let codes = Arc::new(Mutex::new(codes.iter().copied().collect::<VecDeque<_>>()));
    let service = service_fn(move |_: Request<Body>| {
        let code = codes.lock().expect("no panic").pop_front().expect("a code for each request");
        async move {
            tokio::time::sleep(Duration::from_secs(if code == 0 { 3600 } else { 1 })).await;
            Ok(Response::builder().status(code).body(Body::empty()).expect("a response"))
        }
    });
    MetricsLayer::new(metrics.clone(), "api:6443".into()).layer(service)
}

fn request(method: &str, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(Body::empty()).expect("a request")
}

// shows: ccm-contract S-51
#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_code_and_method_and_timed_to_the_end_of_their_answer() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let mut service = metrics_layer(&metrics, &[200, 409, 200]);
    for method in ["GET", "PATCH"] {
        drop(service.ready().await.expect("ready").call(request(method, "/api/v1/nodes/n1")).await);
    }
    let answer = service.ready().await.expect("ready").call(request("GET", "/api/v1/nodes")).await;
    assert_shows(
        &registry,
        &["rest_client_request_duration_seconds_count{host=\"api:6443\",verb=\"GET\"} 1"],
    );
    tokio::time::sleep(Duration::from_secs(6)).await;
    drop(answer);
    assert_shows(
        &registry,
        &[
            "rest_client_requests_total{code=\"200\",host=\"api:6443\",method=\"GET\"} 2",
            "rest_client_requests_total{code=\"409\",host=\"api:6443\",method=\"PATCH\"} 1",
            "rest_client_request_duration_seconds_sum{host=\"api:6443\",verb=\"GET\"} 8",
            "rest_client_request_duration_seconds_bucket{host=\"api:6443\",verb=\"PATCH\",le=\"1\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"api:6443\",verb=\"PATCH\",le=\"0.5\"} 0",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_counts_as_an_error() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let mut service = metrics_layer(&metrics, &[0]);
    let call = service.ready().await.expect("ready").call(request("GET", "/api/v1/nodes"));
    assert!(tokio::time::timeout(Duration::from_secs(30), call).await.is_err());
    assert_shows(
        &registry,
        &[
            "rest_client_requests_total{code=\"<error>\",host=\"api:6443\",method=\"GET\"} 1",
            "rest_client_request_duration_seconds_sum{host=\"api:6443\",verb=\"GET\"} 30",
        ],
    );
}

// shows: ccm-contract S-51
#[tokio::test(start_paused = true)]
async fn a_watch_counts_once_and_is_not_timed() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let mut service = metrics_layer(&metrics, &[200]);
    let watch = request("GET", "/api/v1/nodes?&watch=true&timeoutSeconds=290");
    let answer = service.ready().await.expect("ready").call(watch).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    drop(answer);
    assert_shows(&registry, &["rest_client_requests_total{code=\"200\",host=\"api:6443\",method=\"GET\"} 1"]);
    assert!(!shown(&registry).contains("rest_client_request_duration_seconds_sum"), "{}", shown(&registry));
}

/// When each of the calls got through, in milliseconds.
async fn through(layer: &LimiterLayer, uris: &[&str]) -> Vec<u128> {
    let service = layer.layer(service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Instant::now()) }));
    let began = Instant::now();
    let calls = uris.iter().map(|uri| service.clone().oneshot(request("GET", uri)));
    let times = futures::future::join_all(calls).await;
    times.into_iter().map(|at| at.expect("an answer").duration_since(began).as_millis()).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_wait_in_order_and_the_wait_is_shown() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let layer = LimiterLayer::new(RateLimit::new(10.0, 2).expect("a limit"), metrics, "api:6443".into());
    let times = through(&layer, &["/api/v1/nodes"; 5]).await;
    for (at, least) in times.iter().zip([0, 0, 100, 200, 300]) {
        assert!((least..least + 20).contains(at), "{times:?}");
    }
    assert_shows(
        &registry,
        &[
            "rest_client_rate_limiter_duration_seconds_count{host=\"api:6443\",verb=\"GET\"} 5",
            "rest_client_rate_limiter_duration_seconds_bucket{host=\"api:6443\",verb=\"GET\",le=\"0.005\"} 2",
        ],
    );
}

// shows: ccm-contract 287
#[tokio::test(start_paused = true)]
async fn watches_leases_and_reviews_never_wait() {
    let metrics = ClientMetrics::register(&Registry::new()).expect("metrics");
    let layer = LimiterLayer::new(RateLimit::new(0.01, 1).expect("a limit"), metrics, "api".into());
    let urgent = [
        "/api/v1/nodes?watch=true",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ];
    let mut all = vec!["/api/v1/nodes", "/api/v1/services"];
    all.extend(urgent);
    let times = through(&layer, &all).await;
    assert_eq!(times[0], 0);
    assert!(times[1] >= 100_000, "{times:?}");
    assert_eq!(times[2..], [0; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_while_it_waits_takes_no_token() {
    let metrics = ClientMetrics::register(&Registry::new()).expect("metrics");
    let layer = LimiterLayer::new(RateLimit::new(1.0, 1).expect("a limit"), metrics, "api".into());
    layer.token().await;
    for _ in 0..10 {
        let waiting = futures::future::join_all((0..10).map(|_| layer.token()));
        assert!(tokio::time::timeout(Duration::from_millis(10), waiting).await.is_err());
    }
    let began = Instant::now();
    layer.token().await;
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
}

/// An answer with this status line and a ConfigMap.
fn answer(status: &str) -> String {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A server on loopback that answers one request after the other with these status lines.
async fn server(statuses: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut statuses = statuses.iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                let Some(status) = statuses.next() else { return };
                stream.write_all(answer(status).as_bytes()).await.expect("written");
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn every_attempt_at_a_busy_server_is_counted() {
    let url = server(&["429 Too Many Requests", "503 Service Unavailable", "200 OK"]).await;
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let config = Config::new(url.parse().expect("a URL"));
    let limit = RateLimit::new(1000.0, 10).expect("a limit");
    let client = client(config, Some(limit), &metrics).expect("a client");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let found = tokio::time::timeout(Duration::from_secs(20), maps.get("a")).await.expect("an answer");
    assert_eq!(found.expect("a ConfigMap").metadata.name.as_deref(), Some("a"));
    let host = url.trim_start_matches("http://");
    let count =
        |code| format!("rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"GET\"}} 1");
    let (busy, away, fine) = (count(429), count(503), count(200));
    let waits = format!("rest_client_rate_limiter_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}} 3");
    assert_shows(&registry, &[&busy, &away, &fine, &waits]);
}

#[tokio::test]
async fn a_server_that_is_not_there_counts_as_an_error() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).expect("metrics");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut config = Config::new(format!("http://{address}").parse().expect("a URL"));
    config.default_retry = false;
    let client = client(config, None, &metrics).expect("a client");
    let maps = Api::<ConfigMap>::default_namespaced(client);
    assert!(maps.get("a").await.is_err());
    let count = format!("rest_client_requests_total{{code=\"<error>\",host=\"{address}\",method=\"GET\"}} 1");
    assert_shows(&registry, &[&count]);
}

/// An address that has gone from one server to another: connections of before `moved` is set end at the next request by them, others
/// are answered. The first `together` requests are answered when all of them have come, each by a connection of its own.
async fn server_that_moves(together: usize, moved: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let gathered = Arc::new(Barrier::new(together));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (moved, gathered) = (Arc::clone(&moved), Arc::clone(&gathered));
            let is_of_before = !moved.load(Ordering::Relaxed);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if is_of_before && moved.load(Ordering::Relaxed) {
                        return;
                    }
                    if is_of_before {
                        gathered.wait().await;
                    }
                    stream.write_all(answer("200 OK").as_bytes()).await.expect("written");
                }
            });
        }
    });
    format!("http://{address}")
}

// shows: ccm-contract S-61
#[tokio::test]
async fn a_client_for_elections_meets_one_dead_connection_at_most_when_the_address_has_moved() {
    let elects = |config: Config, metrics: &ClientMetrics| election_client(config, metrics);
    let other = |config: Config, metrics: &ClientMetrics| client(config, None, metrics);
    for (client, failures) in [(elects as fn(_, &_) -> _, 0..=1), (other, 2..=3)] {
        let moved = Arc::new(AtomicBool::new(false));
        let url = server_that_moves(3, Arc::clone(&moved)).await;
        let metrics = ClientMetrics::register(&Registry::new()).expect("metrics");
        let client = client(Config::new(url.parse().expect("a URL")), &metrics).expect("a client");
        let maps = Api::<ConfigMap>::default_namespaced(client);
        try_join!(maps.get("a"), maps.get("a"), maps.get("a")).expect("answers");
        moved.store(true, Ordering::Relaxed);
        let mut failed = 0;
        while maps.get("a").await.is_err() {
            failed += 1;
        }
        assert!(failures.contains(&failed), "{failed} requests failed, not {failures:?}");
    }
}

#[test]
fn the_host_is_the_servers_as_configured() {
    for (url, host) in [
        ("https://10.96.0.1:443/", "10.96.0.1:443"),
        ("https://[fd00::1]:6443/", "[fd00::1]:6443"),
        ("https://api.example.org/k8s/clusters/c1", "api.example.org"),
    ] {
        assert_eq!(&*host_of(&url.parse().expect("a URL")), host, "{url}");
    }
}
