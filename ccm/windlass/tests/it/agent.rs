//! The agent without an API server: it starts from what it knew, announces it, and leaves in an orderly way.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{BINARY, Folder, Running, have_root};

/// State of node n1 as version 1 of the format has it, literally: Active alone (no peers) for one address on `eth0`.
const STATE: &str = concat!(
    r#"{"version":1,"node":"n1","crc32":"56774581","routers":[{"virtualRouter":"v4-192.0.2.0-24-64","#,
    r#""interface":"eth0","vrid":64,"priority":200,"intervalMilliseconds":100,"source":"192.0.2.11","#,
    r#""peers":[],"addresses":["192.0.2.200"]}]}"#,
);

/// Makes `eth0` with the node's address in a network namespace of its own, then becomes the agent in it.
const IN_A_NAMESPACE: &str = "ip link set lo up && ip link add eth0 type veth peer name lan0 && \
    ip address add 192.0.2.11/24 dev eth0 && ip link set eth0 up && ip link set lan0 up && exec \"$@\"";

fn agent_in_a_namespace(folder: &Folder) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", IN_A_NAMESPACE, "sh"]).args(agent(folder));
    command.arg("--state-dir").arg(folder.path());
    command
}

/// The agent, without a folder for its state.
fn agent(folder: &Folder) -> Vec<OsString> {
    let mut command: Vec<OsString> =
        [BINARY, "agent", "--node-name=n1", "--kubeconfig"].map(Into::into).into();
    command.extend([folder.unreachable_kubeconfig().into(), "--socket".into(), socket(folder).into()]);
    command
}

fn socket(folder: &Folder) -> PathBuf {
    folder.path().join("agent.sock")
}

/// What `windlass probe` says of the page; `Err`: it fails, and says why on its standard error.
fn probe(folder: &Folder, page: &str) -> Result<String, String> {
    let output = Command::new(BINARY).args(["probe", page, "--socket"]).arg(socket(folder)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn without_state_and_api_server_it_lives_waits_and_stops_when_told() {
    if !have_root("without_state_and_api_server_it_lives_waits_and_stops_when_told") {
        return;
    }
    let folder = Folder::new();
    let mut agent = Running::start(agent_in_a_namespace(&folder));
    agent.await_line(&["agent started"]);
    agent.await_line(&["cannot watch", "Connection refused"]);
    assert_eq!(probe(&folder, "/livez").unwrap(), "ok\n");
    let reason = probe(&folder, "/readyz").unwrap_err();
    assert!(reason.contains("500") && reason.contains("no state was read"), "{reason}");
    assert!(probe(&folder, "/metrics").unwrap().contains("windlass_build_info"));
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("agent stopped"), "{log}");
    let reason = probe(&folder, "/livez").unwrap_err();
    assert!(reason.contains("agent.sock") && reason.contains("does an agent run here"), "{reason}");
}

// shows: threats T-20
#[test]
fn with_its_port_taken_and_a_folder_that_cannot_be_written_it_says_so_and_announces() {
    if !have_root("with_its_port_taken_and_a_folder_that_cannot_be_written_it_says_so_and_announces") {
        return;
    }
    let folder = Folder::new();
    folder.file("state.json", STATE);
    // The name of what is written first is a folder's: as on a full disk, every write fails, and the file that is there can be read.
    std::fs::create_dir(folder.path().join("state.json.probe")).unwrap();
    std::fs::create_dir(folder.path().join("state.json.new")).unwrap();
    let mut command = agent_in_a_namespace(&folder);
    command.arg("--bind-address=203.0.113.1");
    let mut agent = Running::start(command);
    agent.await_line(&["announcing the last known state", "routers=1"]);
    let (mut state, mut port, mut active) = (false, false, false);
    while !(state && port && active) {
        let line = agent.await_line(&[]);
        state |= line.contains("cannot keep the state") && line.contains("--state-dir");
        port |= line.contains("203.0.113.1:9859") && line.contains("announcing continues");
        active |= line.contains("state changed") && line.contains("state=active");
    }
    let metrics = probe(&folder, "/metrics").unwrap();
    assert!(metrics.contains("windlass_agent_state_write_failed 1"), "{metrics}");
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Mounts a file system with the state on the folder `$2` that then takes nothing more, and becomes the agent in a namespace.
const ON_A_DISK: &str =
    "mount -t tmpfs -o size=64k tmpfs \"$2\" && cp \"$1\" \"$2/state.json\" && eval \"$3\" && shift 3";

// shows: threats T-24
#[test]
fn on_a_read_only_and_on_a_full_disk_it_announces_what_is_there_and_says_that_it_cannot_keep_more() {
    if !have_root(
        "on_a_read_only_and_on_a_full_disk_it_announces_what_is_there_and_says_that_it_cannot_keep_more",
    ) {
        return;
    }
    for (spoil, error) in [
        ("mount -o remount,ro \"$2\"", "Read-only file system"),
        ("! cat /dev/zero >\"$2/filler\"", "No space left on device"),
    ] {
        let folder = Folder::new();
        let (state, disk) = (folder.file("state", STATE), folder.path().join("disk"));
        std::fs::create_dir(&disk).unwrap();
        let mut command = Command::new("unshare");
        let script = format!("{ON_A_DISK} && {IN_A_NAMESPACE}");
        command.args(["--net", "--mount", "sh", "-c", &script, "sh"]).arg(state).arg(&disk).arg(spoil);
        command.args(agent(&folder)).arg("--state-dir").arg(&disk);
        let mut agent = Running::start(command);
        agent.await_line(&["announcing the last known state", "routers=1"]);
        let (mut told, mut active) = (false, false);
        while !(told && active) {
            let line = agent.await_line(&[]);
            told |= line.contains("cannot keep the state") && line.contains(error);
            active |= line.contains("state changed") && line.contains("state=active");
        }
        let metrics = probe(&folder, "/metrics").unwrap();
        assert!(metrics.contains("windlass_agent_state_write_failed 1"), "{metrics}");
        assert_eq!(probe(&folder, "/livez").unwrap(), "ok\n", "{error}: it is not to be started anew");
        let (status, log) = agent.terminate();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

#[test]
fn with_the_api_server_away_it_announces_what_it_knew_and_still_knows_it_after_being_killed() {
    if !have_root("with_the_api_server_away_it_announces_what_it_knew_and_still_knows_it_after_being_killed")
    {
        return;
    }
    let folder = Folder::new();
    folder.file("state.json", STATE);
    for _ in 0..2 {
        let mut agent = Running::start(agent_in_a_namespace(&folder));
        agent.await_line(&["announcing the last known state", "routers=1"]);
        agent.await_line(&["state changed", "vrid=64", "interface=eth0", "state=active"]);
        // Dropping it kills it: nothing orderly happens.
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("state.json")).unwrap(), STATE);
    let mut agent = Running::start(agent_in_a_namespace(&folder));
    agent.await_line(&["state changed", "state=active"]);
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(std::fs::read_to_string(folder.path().join("state.json")).unwrap(), STATE);
}

#[test]
fn a_damaged_state_is_put_aside_with_its_reason_and_the_agent_lives() {
    if !have_root("a_damaged_state_is_put_aside_with_its_reason_and_the_agent_lives") {
        return;
    }
    let folder = Folder::new();
    let damaged = STATE.replace("192.0.2.200", "192.0.2.201");
    folder.file("state.json", &damaged);
    let mut agent = Running::start(agent_in_a_namespace(&folder));
    agent.await_line(&["the last known state is not used", "checksum", "state.json.unusable"]);
    agent.await_line(&["agent started"]);
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("announcing"), "{log}");
    assert_eq!(std::fs::read_to_string(folder.path().join("state.json.unusable")).unwrap(), damaged);
}

/// The same of a virtual router that signs with key 7.
const SIGNING: &str = concat!(
    r#"{"version":1,"node":"n1","crc32":"163ec924","routers":[{"virtualRouter":"v4-192.0.2.0-24-64","#,
    r#""interface":"eth0","vrid":64,"priority":200,"intervalMilliseconds":100,"source":"192.0.2.11","#,
    r#""peers":[],"addresses":["192.0.2.200"],"keyId":7}]}"#,
);

#[test]
fn with_the_api_server_away_a_router_that_signs_waits_for_its_key_and_keeps_it() {
    if !have_root("with_the_api_server_away_a_router_that_signs_waits_for_its_key_and_keeps_it") {
        return;
    }
    let (folder, keys) = (Folder::new(), Folder::new());
    folder.file("state.json", SIGNING);
    let signing = || {
        let mut command = agent_in_a_namespace(&folder);
        command.arg("--vrrp-keys-dir").arg(keys.path());
        command
    };
    let secret = "5".repeat(64);
    let mut agent = Running::start(signing());
    agent.await_line(&["VRRP key 7", "not run", "windlass-vrrp-keys"]);
    let key = keys.file("7", &format!("hex:{secret}\n"));
    agent.await_line(&["this node has these VRRP keys", "7"]);
    agent.await_line(&["state changed", "vrid=64", "state=active"]);
    std::fs::remove_file(&key).unwrap();
    agent.await_line(&["VRRP key 7", "stays in use"]);
    let (status, log) = agent.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    let at = |words: &str| log.find(words).unwrap_or_else(|| panic!("{words}: {log}"));
    assert!(at("these VRRP keys") < at("state=active"), "{log}");
    assert!(!log.contains(&secret), "{log}");
    assert_eq!(std::fs::read_to_string(folder.path().join("state.json")).unwrap(), SIGNING);

    keys.file("7", &secret);
    let mut agent = Running::start(signing());
    agent.await_line(&["announcing the last known state", "routers=1"]);
    agent.await_line(&["state changed", "vrid=64", "state=active"]);
    let (_, log) = agent.terminate();
    assert!(!log.contains("not run"), "{log}");
}
