//! Asking real servers and programs of this machine.

mod commands;
mod grpc;
mod http;
mod https;
pub(crate) mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use self::servers::{
    AMPLE, Authority, Folder, OK, Reply, SHORT, UNAVAILABLE, ask, authority, closed, health, page, pages,
    server, tls_pages,
};
use super::{Host, HttpQuestion, Probe, Question, Target, Tls, Trust, Within};

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
    let of = |port| Target { host: Host::Localhost, port };
    assert_eq!(ask(Question::Tcp, of(v4.port()), AMPLE).await, Ok(()));
    if let Ok(v6) = TcpListener::bind("[::1]:0").await {
        assert_eq!(ask(Question::Tcp, of(v6.local_addr().unwrap().port()), AMPLE).await, Ok(()));
    }
}
