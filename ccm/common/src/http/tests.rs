use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::*;
use crate::probe;

struct Folder(PathBuf);

impl Folder {
    /// Not there yet.
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("windlass-http-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The page, asked from a thread of its own until it is answered.
async fn ask(socket: &Path, page: &'static str) -> Result<String, String> {
    while !socket.exists() {
        tokio::task::yield_now().await;
    }
    let socket = socket.to_owned();
    let asked = tokio::task::spawn_blocking(move || probe::ask(&socket, page)).await.unwrap();
    asked.map_err(|error| format!("{error:#}"))
}

// shows: threats T-20
#[tokio::test]
async fn probes_are_answered_on_the_socket_also_while_another_process_has_the_port_which_is_taken_once_it_is_free()
 {
    let folder = Folder::new("taken");
    let socket = folder.0.join("agent.sock");
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let (health, sender) = Health::starting("the state was not read yet");
    let token = CancellationToken::new();
    let serving = serve(address, &socket, health, &token);

    ask(&socket, "/livez").await.unwrap();
    ask(&socket, "/healthz").await.unwrap();
    let waiting = ask(&socket, "/readyz").await.unwrap_err();
    assert!(
        waiting.contains("500") && waiting.contains("[-]started failed: the state was not read yet\n"),
        "{waiting}"
    );
    sender.send(Ok(())).unwrap();
    ask(&socket, "/readyz").await.unwrap();
    let metrics = ask(&socket, "/metrics").await.unwrap();
    assert!(metrics.contains(r#"windlass_build_info{role="agent",version="0.1.0"} 1"#), "{metrics}");

    drop(holder);
    drop(connected(address).await);
    token.cancel();
    serving.await.unwrap();
    assert!(ask_gone(&socket).contains("does an agent run here"));
}

/// Answers on this port and on this socket.
fn serve(address: SocketAddr, socket: &Path, health: Health, token: &CancellationToken) -> JoinHandle<()> {
    let https = ServingOptions {
        bind_address: address.ip(),
        secure_port: address.port(),
        ..ServingOptions::default()
    };
    let endpoints = Endpoints { https, socket: socket.to_owned() };
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let (registry, token) = (registry().unwrap().0, token.clone());
    tokio::spawn(async move { endpoints.serve(&client, &registry, &health, &token).await })
}

/// A connection to the port, once it is taken.
async fn connected(address: SocketAddr) -> TcpStream {
    let connected = tokio::time::timeout(2 * RETRY, async {
        loop {
            if let Ok(stream) = TcpStream::connect(address).await {
                return stream;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    connected.await.expect("the port is taken once it is free")
}

// shows: threats T-20
#[tokio::test]
async fn probes_are_answered_on_the_socket_while_a_process_of_the_host_holds_all_connections_of_the_port() {
    let folder = Folder::new("full");
    let socket = folder.0.join("agent.sock");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (health, _sender) = Health::starting("the state was not read yet");
    let token = CancellationToken::new();
    let serving = serve(address, &socket, health, &token);
    let mut held = vec![connected(address).await];
    // More than it takes of one host: the last is closed unasked.
    while held.len() < 80 {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    let last = held.last_mut().unwrap();
    assert!(matches!(last.read(&mut [0]).await, Ok(0) | Err(_)), "it is served though there are too many");
    ask(&socket, "/livez").await.unwrap();
    ask(&socket, "/metrics").await.unwrap();
    drop(held);
    token.cancel();
    serving.await.unwrap();
}

fn ask_gone(socket: &Path) -> String {
    format!("{:#}", probe::ask(socket, "/livez").unwrap_err())
}
