use serde_json::json;
use windlass_api::{CONDITION_CONNECTIONS_REPLICATED, SharedLoad};
use windlass_engine::State;

use super::super::super::replication::{Known, Replication, Standing};
use super::*;

#[test]
fn whether_connections_outlive_the_node_is_told_where_that_is_wanted_and_found_out() {
    let now = Instant::now();
    let assignment = assignment(&["192.0.2.12"]);
    let replicates = Assignment { connections: ConnectionPolicy::Replicate, ..assignment.clone() };
    let key = assignment.key().unwrap();
    let mut replication = Replication::default();
    let standing = Standing { state: State::Active, active: None };
    // There is no other node.
    replication.look(
        std::slice::from_ref(&replicates),
        &[(key, standing)].into(),
        |_: &Assignment| Ok(&[][..]),
        &Known::default(),
        now,
        NOW,
    );
    let findings = replication.findings();
    let found = NodeContext { connections: &findings, ..context(now) };
    let announced = [condition("Announced", "True")];
    assert_eq!(conditions_by(found, &assignment, None, &announced), announced, "not wanted");
    assert_eq!(conditions_by(context(now), &replicates, None, &announced), announced, "not known yet");
    let told = conditions_by(found, &replicates, None, &announced);
    let [still, connections] = &told[..] else { panic!("{told:?}") };
    assert_eq!(still.status, "True");
    let written = (connections.type_.as_str(), connections.status.as_str(), connections.reason.as_str());
    assert_eq!(written, ("ConnectionsReplicated", "False", "NoOtherNode"));
    assert_eq!(conditions_by(found, &replicates, None, &told), told, "it is told once");
    assert_eq!(
        conditions_by(context(now), &replicates, None, &told),
        told,
        "it stands until it is known anew"
    );
    assert_eq!(
        conditions_by(found, &assignment, None, &told),
        told[..1],
        "and goes when it is wanted no more"
    );
    let nodes = json!([{ "key": "a", "name": "n1", "address": "192.0.2.11" }]);
    let shared: SharedLoad =
        serde_json::from_value(json!({ "nodes": nodes, "lots": "a".repeat(120) })).unwrap();
    let of = |policy, load_sharing| {
        let mut vip = Arc::unwrap_or_clone(vip(Some("n1"), told.clone()));
        (vip.spec.external_traffic_policy, vip.spec.load_sharing) = (policy, load_sharing);
        let told = conditions_of(vip.into(), found, &replicates, None);
        told.iter().any(|one| one.type_ == CONDITION_CONNECTIONS_REPLICATED)
    };
    assert!(of(ExternalTrafficPolicy::Cluster, None));
    assert!(!of(ExternalTrafficPolicy::Local, None) && !of(ExternalTrafficPolicy::Cluster, Some(shared)));
}
