use std::path::PathBuf;

use super::*;
use crate::agent::desired::Assignment;

fn desired(vrid: u8) -> Arc<Desired> {
    let assignment = Assignment {
        forced: [].into(),
        virtual_router: "a".into(),
        interface: "eth0".into(),
        vrid,
        priority: 200,
        interval_milliseconds: 100,
        source: "192.0.2.11".parse().unwrap(),
        peers: [].into(),
        addresses: ["192.0.2.200".parse().unwrap()].into(),
        unproven: [].into(),
        preferred: [].into(),
        before: 0,
        health_check_node_ports: [].into(),
        preempt_delay_seconds: 0,
        transport: windlass_api::Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: windlass_api::AddressConflictPolicy::Defend,
        connections: windlass_api::ConnectionPolicy::Forward,
        external_traffic_policy: windlass_api::ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    };
    Arc::new(Desired { assignments: vec![assignment], ..Desired::default() })
}

fn gauge() -> IntGauge {
    IntGauge::new("failed", "whether the last write failed").unwrap()
}

async fn write(
    file: StateFile,
    mut desired: watch::Receiver<Option<Arc<Desired>>>,
    failed: IntGauge,
    token: CancellationToken,
) {
    run(&file, &mut desired, &failed, &token).await;
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    Folder(std::env::temp_dir().join(format!("windlass-keep-{name}-{}", std::process::id())))
}

#[tokio::test]
async fn the_last_state_before_the_stop_is_on_disk_when_it_ends() {
    let folder = folder("last");
    let file = StateFile::new(&folder.0, "n1");
    let (sender, receiver) = watch::channel(None);
    let token = CancellationToken::new();
    let writer = tokio::spawn(write(file.clone(), receiver, gauge(), token.clone()));
    for vrid in 64..70 {
        sender.send_replace(Some(desired(vrid)));
    }
    token.cancel();
    writer.await.unwrap();
    assert_eq!(file.load().unwrap().unwrap().assignments[0].vrid, 69);
}

#[tokio::test]
async fn nothing_is_written_before_there_is_a_state() {
    let folder = folder("none");
    let file = StateFile::new(&folder.0, "n1");
    let (_sender, receiver) = watch::channel(None);
    let token = CancellationToken::new();
    token.cancel();
    write(file.clone(), receiver, gauge(), token).await;
    assert!(file.load().unwrap().is_none());
}

fn with_addresses(count: u8) -> Arc<Desired> {
    let mut desired = Desired::clone(&desired(64));
    desired.assignments[0].addresses = (0..count).map(|last| [192, 0, 2, last].into()).collect();
    Arc::new(desired)
}

// shows: threats T-27
#[tokio::test(start_paused = true)]
async fn where_most_addresses_go_at_once_the_state_before_is_kept() {
    let folder = folder("previous");
    let file = StateFile::new(&folder.0, "n1");
    let previous = folder.0.join("state.json.previous");
    let kept = || std::fs::read_to_string(&previous).ok();
    // Each in a process of its own: what is on disk counts, not what was written since the start. Half is not most.
    for (count, is_kept) in
        [(8, false), (4, false), (2, false), (8, false), (3, true), (2, false), (1, false), (0, true)]
    {
        let before = std::fs::read_to_string(file.path()).ok();
        let _ = std::fs::remove_file(&previous);
        let (sender, receiver) = watch::channel(None);
        sender.send_replace(Some(with_addresses(count)));
        let token = CancellationToken::new();
        let writer = tokio::spawn(write(file.clone(), receiver, gauge(), token.clone()));
        tokio::time::sleep(LONGEST_PAUSE).await;
        token.cancel();
        writer.await.unwrap();
        assert_eq!(file.load().unwrap().unwrap(), *with_addresses(count));
        assert_eq!(kept(), before.filter(|_| is_kept), "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_failed_is_tried_again_until_it_succeeds() {
    let folder = folder("retry");
    let file = StateFile::new(&folder.0, "n1");
    // The place of the temporary file is taken by a folder: every write fails until it is gone.
    let obstacle = folder.0.join("state.json.new");
    std::fs::create_dir_all(&obstacle).unwrap();
    let (sender, receiver) = watch::channel(None);
    let token = CancellationToken::new();
    let writer = tokio::spawn(write(file.clone(), receiver, gauge(), token.clone()));
    sender.send_replace(Some(desired(64)));
    // Virtual time: two retries later.
    tokio::time::sleep(RETRY * 2).await;
    assert!(file.load().unwrap().is_none());
    std::fs::remove_dir(&obstacle).unwrap();
    tokio::time::sleep(RETRY * 2).await;
    token.cancel();
    writer.await.unwrap();
    assert_eq!(file.load().unwrap().unwrap().assignments[0].vrid, 64);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_written_is_told_and_holds_nothing_up() {
    let folder = folder("blocked");
    // A file is in the place of the folder.
    std::fs::write(&folder.0, "").unwrap();
    let file = StateFile::new(&folder.0, "n1");
    let (sender, receiver) = watch::channel(None);
    let (token, failed) = (CancellationToken::new(), gauge());
    let writer = tokio::spawn(write(file.clone(), receiver, failed.clone(), token.clone()));
    tokio::time::sleep(RETRY).await;
    assert_eq!(failed.get(), 1, "before there is anything to write");
    sender.send_replace(Some(desired(64)));
    tokio::time::sleep(RETRY).await;
    assert_eq!(failed.get(), 1);
    std::fs::remove_file(&folder.0).unwrap();
    tokio::time::sleep(RETRY * 2).await;
    token.cancel();
    writer.await.unwrap();
    assert_eq!(failed.get(), 0);
    assert_eq!(file.load().unwrap().unwrap().assignments[0].vrid, 64);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_states_is_few_writes_and_its_last_one_is_not_lost() {
    let folder = folder("burst");
    let file = StateFile::new(&folder.0, "n1");
    let (sender, receiver) = watch::channel(None);
    let token = CancellationToken::new();
    let writer = tokio::spawn(write(file.clone(), receiver, gauge(), token.clone()));
    let mut written = Vec::new();
    for vrid in 1..=200 {
        sender.send_replace(Some(desired(vrid)));
        // Virtual time, two seconds of it.
        tokio::time::sleep(Duration::from_millis(10)).await;
        written.extend(file.load().unwrap().map(|state| state.assignments[0].vrid));
    }
    written.dedup();
    assert!((6..=9).contains(&written.len()), "{written:?}");
    tokio::time::sleep(LEAST_PAUSE).await;
    assert_eq!(file.load().unwrap().unwrap().assignments[0].vrid, 200);
    token.cancel();
    writer.await.unwrap();
}
