//! Asking real servers and programs of this machine.

mod commands;
mod grpc;
mod http;
mod https;
mod running;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Answer;
use super::probe::{Probe, Within};
use crate::vip::settings::{HttpQuestion, Question, Target, Tls};

/// Far more than any attempt needs on a busy machine.
const AMPLE: Duration = Duration::from_mins(1);
/// For attempts that are to run out of time.
const SHORT: Duration = Duration::from_millis(100);

/// A port that nobody listens on: that of a listener that is gone.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A server that does `serve` with each connection.
async fn server<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// What a server of pages does once it has read a request.
#[derive(Debug, Clone, Copy)]
enum Reply {
    /// Says this and ends.
    Say(&'static str),
    /// Says this and then nothing, without an end.
    Stay(&'static str),
    /// Says the first once and the second for ever, as fast as it is taken.
    Flood(&'static str, &'static str),
    /// Says the first once and the second again and again, now and then.
    Drip(&'static str, &'static str),
}

const OK: Reply = Reply::Say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
const UNAVAILABLE: Reply = Reply::Say("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 7\r\n\r\nnot yet");

/// Reads the head of a request and answers. The head; `None`: there was none.
async fn reply<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, reply: Reply) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let (first, again) = match reply {
        Reply::Say(first) | Reply::Stay(first) => (first, ""),
        Reply::Flood(first, again) | Reply::Drip(first, again) => (first, again),
    };
    stream.write_all(first.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    match reply {
        Reply::Say(_) => drop(stream.shutdown().await),
        // Until the other side goes.
        Reply::Stay(_) => drop(stream.read_u8().await),
        Reply::Flood(..) => while stream.write_all(again.as_bytes()).await.is_ok() {},
        Reply::Drip(..) => {
            let mut beat = tokio::time::interval(Duration::from_millis(5));
            while stream.write_all(again.as_bytes()).await.is_ok() && stream.flush().await.is_ok() {
                beat.tick().await;
            }
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// A server of pages without TLS, and the heads of the requests that it answered.
async fn pages(answer: Reply) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let address = server(move |stream| {
        let seen = Arc::clone(&seen);
        async move {
            if let Some(head) = reply(stream, answer).await {
                seen.lock().unwrap().push(head);
            }
        }
    });
    (address.await, heads)
}

/// For `/readyz`, with this answer.
fn page(expect: &[u16], tls: Option<Tls>) -> Question {
    let expect: BTreeSet<u16> = expect.iter().copied().collect();
    Question::Http(HttpQuestion { path: "/readyz".to_owned(), expect, host: None, tls })
}

/// One attempt.
async fn ask(question: Question, target: impl Into<Target>, limit: Duration) -> Answer {
    Probe::new(question).ask(&target.into(), Within::from_now(limit)).await
}

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("windlass-checks-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_connection_is_all_that_a_tcp_check_asks_for() {
    let open = server(async |stream| drop(stream)).await;
    assert_eq!(ask(Question::Tcp, open, AMPLE).await, Ok(()));
    let refused = ask(Question::Tcp, closed().await, AMPLE).await;
    assert_eq!(refused, Err("no connection: Connection refused (os error 111)".to_owned()));
    // TEST-NET-1 (RFC 5737), whose packets come to nobody: either no route or no answer.
    let nowhere: SocketAddr = "192.0.2.1:9".parse().unwrap();
    assert!(ask(Question::Tcp, nowhere, SHORT).await.unwrap_err().starts_with("no connection"));
}

#[tokio::test]
async fn localhost_is_whichever_loopback_address_somebody_listens_on() {
    let v4 = server(async |stream| drop(stream)).await;
    let of = |port| Target { host: crate::vip::settings::Host::Localhost, port };
    assert_eq!(ask(Question::Tcp, of(v4.port()), AMPLE).await, Ok(()));
    if let Ok(v6) = TcpListener::bind("[::1]:0").await {
        assert_eq!(ask(Question::Tcp, of(v6.local_addr().unwrap().port()), AMPLE).await, Ok(()));
    }
}
