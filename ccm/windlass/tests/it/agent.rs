//! The agent without an API server: it starts from what it knew, announces it, and leaves in an orderly way.

use std::process::Command;

use crate::support::{BINARY, Folder, Running, fetch, have_root, windlass};

/// State of node n1: Active alone (no peers) for one address on `eth0`. The checksum is that of the routers.
const STATE: &str = concat!(
    r#"{"version":1,"node":"n1","crc32":"CRC","routers":[{"virtualRouter":"v4-192.0.2.0-24-64","interface":"eth0","#,
    r#""vrid":64,"priority":200,"intervalMilliseconds":100,"source":"192.0.2.11","peers":[],"addresses":["192.0.2.200"]}]}"#,
);

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn without_state_and_api_server_it_lives_waits_and_stops_when_told() {
    if !have_root("without_state_and_api_server_it_lives_waits_and_stops_when_told") {
        return;
    }
    let folder = Folder::new();
    let address = free_port();
    let mut command = windlass();
    command.args(["agent", "--node-name=n1", "--kubeconfig", &folder.unreachable_kubeconfig()]);
    command.args(["--http-address", &address, "--state-dir"]).arg(folder.path().join("state"));
    let mut agent = Running::start(command);
    agent.await_line(&["agent started"]);
    agent.await_line(&["cannot watch", "Connection refused"]);
    assert!(fetch(&address, "/livez").unwrap().starts_with("HTTP/1.1 200"));
    assert!(fetch(&address, "/readyz").unwrap().starts_with("HTTP/1.1 503"));
    assert!(fetch(&address, "/metrics").unwrap().contains("windlass_build_info"));
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("agent stopped"), "{log}");
}
