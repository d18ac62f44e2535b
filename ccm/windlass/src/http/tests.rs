use std::net::TcpListener;
use std::path::Path;

use super::*;
use crate::probe;

struct Folder(PathBuf);

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

#[tokio::test]
async fn probes_are_answered_on_the_socket_also_while_another_process_has_the_port_which_is_taken_once_it_is_free()
 {
    let folder = Folder(std::env::temp_dir().join(format!("windlass-http-{}", std::process::id())));
    let socket = folder.0.join("agent.sock");
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let https = ServingOptions {
        bind_address: address.ip(),
        secure_port: address.port(),
        ..ServingOptions::default()
    };
    let endpoints = Endpoints { https, socket: socket.clone() };
    let (health, sender) = Health::starting("the state was not read yet");
    let token = CancellationToken::new();
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let serving = tokio::spawn(endpoints.serve(client, registry().unwrap().0, health, token.clone()));

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
    let connected = tokio::time::timeout(2 * RETRY, async {
        loop {
            if let Ok(stream) = tokio::net::TcpStream::connect(address).await {
                return stream;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let stream = connected.await.expect("the port is taken once it is free").into_std().unwrap();
    drop(stream);
    token.cancel();
    serving.await.unwrap();
    assert!(ask_gone(&socket).contains("does an agent run here"));
}

fn ask_gone(socket: &Path) -> String {
    format!("{:#}", probe::ask(socket, "/livez").unwrap_err())
}
