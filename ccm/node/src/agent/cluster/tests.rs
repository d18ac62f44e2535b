use std::net::Ipv4Addr;

use nix::sched::{CloneFlags, unshare};
use prometheus::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_ccm::serving::ServingOptions;
use windlass_common::http::Endpoints;
use windlass_engine::ConnectionReplication;

use super::*;
use crate::agent::desired::Desired;
use crate::agent::running::Input;
use crate::agent::start::{Started, start};
use crate::agent::state::StateFile;
use crate::agent::{GuardMode, MasqueradeMark, Options};

// shows: field-reports F-82
#[test]
fn a_state_without_an_identity_counts_as_of_this_cluster_and_one_of_another_is_found() {
    let folder = std::env::temp_dir().join(format!("windlass-cluster-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = ClusterFile::of(&folder);
    assert_eq!(file.origin("a"), Origin::Same, "as of an earlier version");
    file.store("a").unwrap();
    assert_eq!(file.origin("a"), Origin::Same);
    assert_eq!(file.origin("b"), Origin::Other);
    assert_eq!(file.origin("b"), Origin::Other, "until it is written anew");
    file.store("b").unwrap();
    assert_eq!(ClusterFile::of(&folder).origin("b"), Origin::Same);
    fs::write(folder.join(FILE), "\n").unwrap();
    assert_eq!(file.origin("b"), Origin::Same, "an empty file, as after a crash");
    fs::remove_dir_all(&folder).unwrap();
}

/// An agent without a guard that keeps its state in this folder.
pub(in crate::agent) fn options(folder: &Path) -> Options {
    Options {
        node_name: "n1".into(),
        state_dir: folder.to_owned(),
        vrrp_keys_dir: folder.join("keys"),
        endpoints: Endpoints {
            https: ServingOptions { secure_port: 0, ..ServingOptions::default() },
            socket: folder.join("socket"),
        },
        realtime: false,
        guard: GuardMode::Off,
        connection_forwarding: None,
        connection_replication: ConnectionReplication::default(),
        kube_proxy: None,
        kube_proxy_metrics: None,
        masquerade_mark: MasqueradeMark::default(),
        deletion_hold: Duration::from_mins(10),
    }
}

/// Starts an agent whose state is of the cluster `a`, and has it learn the UID of its API server's cluster.
async fn learn(folder: &Path) {
    let assignment = json!({
        "virtualRouter": "a", "interface": "eth0", "vrid": 64, "priority": 254, "intervalMilliseconds": 100,
        "source": Ipv4Addr::new(192, 0, 2, 11), "peers": [], "addresses": [Ipv4Addr::new(192, 0, 2, 200)],
    });
    let assignments = vec![serde_json::from_value(assignment).unwrap()];
    let of_a = Desired { assignments, ..Desired::default() };
    StateFile::new(folder, "n1").store(&of_a).unwrap();
    ClusterFile::of(folder).store("a").unwrap();
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let token = CancellationToken::new();
    let Started { mut agent, inputs, mut tasks } =
        start(client, options(folder), Registry::new(), token.clone()).await.unwrap();

    for uid in ["a", "a"] {
        agent.handle(Input::Cluster(uid.into()), &mut tasks).unwrap();
        assert_eq!(agent.desired.borrow().as_deref(), Some(&of_a), "the state of this cluster stays");
        assert_eq!((agent.engine_updates.addresses(), agent.engine.snapshot().len()), (1, 1));
        assert!(agent.queue.take().is_empty());
    }
    agent.handle(Input::Cluster("b".into()), &mut tasks).unwrap();
    assert_eq!(agent.desired.borrow().as_deref(), Some(&Desired::default()), "nothing of it is announced");
    assert_eq!((agent.engine_updates.addresses(), agent.engine.snapshot().len()), (0, 0));
    assert!(agent.queue.take().all, "all is decided anew from the objects of this cluster");
    assert_eq!(agent.cluster_file.origin("b"), Origin::Other, "until the state of this cluster is on disk");
    token.cancel();
    drop(inputs);
    agent.stop(tasks).await;
}

/// Runs `work` with a folder of its own, in a network namespace of its own.
pub(in crate::agent) fn in_namespace<F: Future<Output = ()>>(
    name: &str,
    work: impl FnOnce(PathBuf) -> F + Send,
) {
    let folder = std::env::temp_dir().join(format!("windlass-{name}-{}", std::process::id()));
    let body = || {
        // The engine is not to see this host's interfaces.
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            assert!(
                std::env::var("CI").is_err(),
                "this test makes a network namespace: run as root ({error})"
            );
            eprintln!("skipped: makes a network namespace and needs root ({error})");
            return;
        }
        fs::create_dir_all(&folder).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work(folder.clone()));
    };
    let ended = std::thread::scope(|scope| scope.spawn(body).join());
    drop(fs::remove_dir_all(&folder));
    ended.unwrap();
}

// shows: field-reports F-82
#[test]
fn an_agent_withdraws_the_state_of_another_cluster_from_its_engine_and_keeps_that_of_its_own() {
    in_namespace("other-cluster", |folder| async move { learn(&folder).await });
}
