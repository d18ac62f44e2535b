use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

async fn fetch(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn health_readiness_and_metrics_are_served_and_a_port_in_use_is_named() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.0.local_addr().unwrap();
    let (health, sender) = Health::starting("the state was not read yet");
    let token = CancellationToken::new();
    let serving = tokio::spawn(server.serve(registry().unwrap().0, health, token.clone()));

    assert!(fetch(address, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let waiting = fetch(address, "/readyz").await;
    assert!(waiting.starts_with("HTTP/1.1 500"), "{waiting}");
    assert!(waiting.contains("[-]started failed: the state was not read yet\n"), "{waiting}");
    sender.send(Ok(())).unwrap();
    assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let metrics = fetch(address, "/metrics").await;
    assert!(metrics.contains(r#"windlass_build_info{role="agent",version="0.1.0"} 1"#), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4\r\n"), "{metrics}");

    let error = format!("{:#}", Server::bind(address).await.unwrap_err());
    assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
    assert!(error.contains("--http-address"), "{error}");

    token.cancel();
    serving.await.unwrap().unwrap();
}
