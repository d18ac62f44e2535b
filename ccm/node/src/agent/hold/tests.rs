use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::agent::desired::desired;

const HOLD: Duration = Duration::from_mins(10);

/// A cluster as one node's agent sees it: its objects, what it was told of them since it decided last, and what it does.
struct Agent {
    node: &'static str,
    routers: BTreeMap<String, Arc<VirtualRouter>>,
    vips: BTreeMap<IpAddr, Arc<VirtualIP>>,
    changed: Changed,
    hold: Hold,
    desired: Desired,
    now: Instant,
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn router(name: &str, vrid: u8, nodes: &[&str]) -> VirtualRouter {
    let ranked = |(rank, node): (u8, &&str)| {
        let last = &node[1..];
        json!({ "name": node, "priority": 200 - rank, "address": format!("192.0.2.1{last}"), "interface": "eth0" })
    };
    let nodes: Vec<_> = (0..).zip(nodes).map(ranked).collect();
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "VirtualRouter",
        "metadata": { "name": name },
        "spec": { "vrid": vrid, "segment": "x", "advertisementIntervalMilliseconds": 100, "nodes": nodes },
    }))
    .unwrap()
}

fn vip(last: u8, router: Option<&str>, quarantine: bool) -> VirtualIP {
    let quarantine = quarantine.then(|| json!({ "reason": "Released", "until": "2020-01-01T00:00:00Z" }));
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "VirtualIP",
        "metadata": { "name": virtual_ip_name(address(last)) },
        "spec": {
            "address": address(last),
            "pool": "lan",
            "owners": [{ "namespace": "default", "name": "web", "uid": "1" }],
            "virtualRouter": router,
            "quarantine": quarantine,
        },
    }))
    .unwrap()
}

impl Agent {
    /// Virtual routers `a` and `b` of three nodes, and so many virtual IPs, from 200 on, on one and the other in turn.
    fn new(node: &'static str, vips: u8) -> Self {
        let (routers, known) = Self::cluster(vips);
        let mut agent = Self {
            node,
            routers,
            vips: known,
            changed: Changed::list(),
            hold: Hold::new(HOLD),
            desired: Desired::default(),
            now: Instant::now(),
        };
        agent.decide();
        agent
    }

    fn cluster(vips: u8) -> (BTreeMap<String, Arc<VirtualRouter>>, BTreeMap<IpAddr, Arc<VirtualIP>>) {
        let routers = [("a", 64), ("b", 65)]
            .map(|(name, vrid)| (name.to_owned(), Arc::new(router(name, vrid, &["n1", "n2", "n3"]))));
        let vips = (200..200 + vips).map(|last| {
            let router = if last % 2 == 0 { "a" } else { "b" };
            (address(last), Arc::new(vip(last, Some(router), false)))
        });
        (routers.into(), vips.collect())
    }

    fn objects_say(&self) -> Desired {
        let (routers, vips) = (self.routers(), self.vips());
        desired(self.node, &routers, &vips, &Answered::default())
    }

    fn routers(&self) -> Vec<Arc<VirtualRouter>> {
        self.routers.values().cloned().collect()
    }

    fn vips(&self) -> Vec<Arc<VirtualIP>> {
        self.vips.values().cloned().collect()
    }

    fn decide(&mut self) -> Option<News> {
        let (routers, vips) = (self.routers(), self.vips());
        let new = self.objects_say();
        let objects =
            Objects { node: self.node, routers: &routers, vips: &vips, answered: &Answered::default() };
        let changed = std::mem::take(&mut self.changed);
        let (desired, news) = self.hold.apply(&self.desired, new, &objects, &changed, self.now);
        self.desired = desired;
        news
    }

    fn pass(&mut self, time: Duration) -> Option<News> {
        self.now += time;
        self.decide()
    }

    fn lose_vip(&mut self, last: u8) {
        let gone = self.vips.remove(&address(last)).unwrap();
        let name = virtual_ip_name(address(last));
        if !is_wanted(&gone) {
            self.changed.released_vips.insert(name);
        } else if gone.spec.virtual_router.is_some() {
            self.changed.vanished_vips.insert(name);
        }
    }

    fn lose_router(&mut self, name: &str) {
        self.routers.remove(name);
        self.changed.vanished_routers.insert(name.to_owned());
    }

    fn lose_all(&mut self) {
        let lasts: Vec<u8> = (200..=255).filter(|last| self.vips.contains_key(&address(*last))).collect();
        for last in lasts {
            self.lose_vip(last);
        }
        self.lose_router("a");
        self.lose_router("b");
    }

    fn does(&self) -> BTreeSet<IpAddr> {
        addresses(&self.desired).collect()
    }
}

// shows: threats T-27
#[test]
fn all_that_vanishes_at_once_goes_on_as_it_was_until_the_time_is_over() {
    let mut agent = Agent::new("n1", 4);
    let before = agent.desired.clone();
    agent.lose_all();
    assert_eq!(agent.decide(), None, "it may be the way of one object after the other");
    assert_eq!(agent.desired, before);
    assert_eq!(agent.pass(GRACE), Some(News::Held { addresses: 4, of: 4 }));
    assert_eq!(agent.pass(HOLD.saturating_sub(GRACE + Duration::from_millis(1))), None);
    assert_eq!(agent.desired, before);
    assert_eq!(agent.hold.due(), Some(agent.now + Duration::from_millis(1)));
    assert_eq!(agent.pass(Duration::from_millis(1)), Some(News::Over { addresses: 4 }));
    assert_eq!(agent.desired, Desired::default());
    assert_eq!((agent.hold.due(), agent.hold.held()), (None, 0));
}

#[test]
fn shared_addresses_that_vanish_at_once_stay_shared() {
    let mut agent = Agent::new("n1", 4);
    let nodes = json!([{ "key": "a", "name": "n1", "address": "192.0.2.11" }]);
    for vip in agent.vips.values_mut() {
        let spec = &mut Arc::make_mut(vip).spec;
        spec.ports = serde_json::from_value(json!([{ "protocol": "TCP", "port": 80 }])).unwrap();
        spec.load_sharing =
            serde_json::from_value(json!({ "nodes": nodes, "lots": "a".repeat(120) })).unwrap();
    }
    agent.decide();
    let before = agent.desired.clone();
    assert_eq!(before.shared.len(), 4);
    agent.lose_all();
    agent.decide();
    agent.pass(GRACE);
    assert_eq!(agent.desired, before);
    agent.pass(HOLD);
    assert_eq!(agent.desired, Desired::default());
}

#[test]
fn one_of_several_that_vanishes_is_left_after_a_moment_in_which_it_can_be_made_anew() {
    let mut agent = Agent::new("n1", 4);
    agent.lose_vip(200);
    assert_eq!((agent.decide(), agent.does().len()), (None, 4));
    assert_eq!((agent.pass(GRACE), agent.does().len()), (None, 3));
    agent.lose_vip(201);
    agent.decide();
    agent.vips.insert(address(201), Arc::new(vip(201, Some("b"), false)));
    assert_eq!((agent.pass(GRACE), agent.does().len()), (None, 3));
    assert!(agent.hold.due().is_none());
}

// shows: threats T-27
#[test]
fn what_was_taken_out_of_service_before_is_left_at_once_however_much_it_is() {
    let mut agent = Agent::new("n1", 4);
    for last in 200..204 {
        agent.vips.insert(address(last), Arc::new(vip(last, None, true)));
        agent.lose_vip(last);
    }
    agent.decide();
    assert_eq!(agent.desired, Desired::default());
    // Also while others are held.
    let mut agent = Agent::new("n1", 4);
    agent.lose_all();
    agent.decide();
    agent.pass(GRACE);
    agent.vips.insert(address(200), Arc::new(vip(200, None, true)));
    agent.lose_vip(200);
    agent.decide();
    assert_eq!(agent.does().len(), 3);
}

#[test]
fn a_list_that_lacks_less_than_most_is_believed_and_one_that_lacks_most_is_not() {
    for (lacks, left) in [(1, 9), (5, 5), (6, 10), (10, 10)] {
        let mut agent = Agent::new("n1", 10);
        (200..200 + lacks).for_each(|last| drop(agent.vips.remove(&address(last))));
        agent.changed = Changed::list();
        agent.decide();
        agent.pass(GRACE);
        assert_eq!(agent.does().len(), left, "{lacks}");
    }
}

#[test]
fn objects_that_are_made_anew_count_again_one_by_one() {
    let mut agent = Agent::new("n1", 4);
    let before = agent.desired.clone();
    agent.lose_all();
    agent.decide();
    agent.pass(GRACE);
    // Not on a virtual router yet, then on one that is not there yet.
    agent.vips.insert(address(200), Arc::new(vip(200, None, false)));
    agent.decide();
    agent.vips.insert(address(201), Arc::new(vip(201, Some("b"), false)));
    agent.decide();
    assert_eq!(agent.desired, before);
    // On another than before.
    agent.routers.insert("c".to_owned(), Arc::new(router("c", 70, &["n2", "n1"])));
    agent.vips.insert(address(200), Arc::new(vip(200, Some("c"), false)));
    agent.decide();
    let carrier = |agent: &Agent| {
        let with = |one: &&Assignment| one.addresses.contains(&address(200));
        agent
            .desired
            .assignments
            .iter()
            .filter(with)
            .map(|one| one.virtual_router.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((carrier(&agent), agent.does().len()), (vec!["c".to_owned()], 4));
    // A virtual router that is to be others'.
    agent.routers.insert("b".to_owned(), Arc::new(router("b", 65, &["n2", "n3"])));
    agent.decide();
    assert_eq!(agent.does(), [200, 202].map(address).into());
    let (routers, vips) = Agent::cluster(4);
    (agent.routers, agent.vips) = (routers, vips);
    assert_eq!(agent.decide(), Some(News::Back));
    assert_eq!(agent.desired, before);
}

// shows: threats T-27
#[test]
fn a_restarted_agent_holds_what_its_file_says_and_one_that_is_told_not_to_holds_nothing() {
    let before = Agent::new("n1", 4).desired;
    for (hold, left) in [(HOLD, 4), (Duration::ZERO, 0)] {
        let mut agent = Agent::new("n1", 0);
        agent.hold = Hold::new(hold);
        agent.desired = before.clone();
        agent.routers.clear();
        agent.changed = Changed::list();
        agent.decide();
        assert_eq!(agent.does().len(), left);
        agent.pass(GRACE);
        assert_eq!(agent.does().len(), left);
    }
}

#[test]
fn what_is_of_another_cluster_is_left_at_once_and_not_held() {
    let before = Agent::new("n1", 4).desired;
    let mut agent = Agent::new("n1", 0);
    agent.desired = before;
    agent.changed = Changed::list();
    agent.decide();
    assert_eq!(agent.does().len(), 4, "while it is not known whose the state is");
    // As the agent does when the API server has another UID.
    (agent.desired, agent.hold) = (Desired::default(), Hold::new(HOLD));
    agent.changed = Changed::all();
    for time in [Duration::ZERO, GRACE, HOLD] {
        assert_eq!(agent.pass(time), None);
        assert!(agent.does().is_empty());
    }
}

#[derive(Debug, Clone)]
enum Step {
    LoseVip(u8),
    LoseRouter(bool),
    Release(u8),
    Make(u8, Option<bool>),
    MakeRouter(bool, bool),
    /// A list lacks these.
    List(Vec<u8>),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let last = 200..206_u8;
    prop_oneof![
        3 => last.clone().prop_map(Step::LoseVip),
        1 => any::<bool>().prop_map(Step::LoseRouter),
        2 => last.clone().prop_map(Step::Release),
        2 => (last.clone(), any::<Option<bool>>()).prop_map(|(last, router)| Step::Make(last, router)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(name, is_ours)| Step::MakeRouter(name, is_ours)),
        1 => proptest::collection::vec(last, 0..6).prop_map(Step::List),
        4 => prop_oneof![0..3_000_u64, 0..700_000_u64].prop_map(Step::Pass),
    ]
}

fn named(first: bool) -> &'static str {
    if first { "a" } else { "b" }
}

impl Agent {
    fn take(&mut self, step: &Step) {
        match step {
            Step::LoseVip(last) if self.vips.contains_key(&address(*last)) => self.lose_vip(*last),
            Step::LoseVip(_) => {}
            Step::LoseRouter(first) => self.lose_router(named(*first)),
            Step::Release(last) => {
                if let Some(one) = self.vips.get_mut(&address(*last)) {
                    *one = Arc::new(vip(*last, None, true));
                    self.lose_vip(*last);
                }
            }
            Step::Make(last, router) => {
                self.vips.insert(address(*last), Arc::new(vip(*last, router.map(named), false)));
            }
            Step::MakeRouter(first, is_ours) => {
                let nodes: &[&str] = if *is_ours { &["n1", "n2", "n3"] } else { &["n3"] };
                let vrid = if *first { 64 } else { 65 };
                self.routers.insert(named(*first).to_owned(), Arc::new(router(named(*first), vrid, nodes)));
            }
            Step::List(lacks) => {
                self.vips.retain(|one, _| !lacks.iter().any(|last| address(*last) == *one));
                self.changed.listed = true;
            }
            Step::Pass(milliseconds) => {
                // As the agent does: it looks when it is due.
                let end = self.now + Duration::from_millis(*milliseconds);
                while let Some(due) = self.hold.due().filter(|due| *due <= end) {
                    self.now = due;
                    self.decide();
                }
                self.now = end;
            }
        }
        self.decide();
    }
}

proptest! {
    // shows: threats T-27
    /// Two nodes of the same virtual routers hold the same; what objects say is done, nothing that they gainsay; what is held
    /// is given up in time.
    #[test]
    fn held_is_only_what_no_object_speaks_of_and_by_all_nodes_alike(steps in proptest::collection::vec(step(), 0..40)) {
        let (mut one, mut other) = (Agent::new("n1", 6), Agent::new("n2", 6));
        let mut unsaid: BTreeMap<IpAddr, Instant> = BTreeMap::new();
        for step in &steps {
            one.take(step);
            other.take(step);
            prop_assert_eq!(one.does(), other.does());
            let said: BTreeSet<IpAddr> = addresses(&one.objects_say()).collect();
            prop_assert!(said.is_subset(&one.does()));
            let held: BTreeSet<IpAddr> = one.does().difference(&said).copied().collect();
            unsaid.retain(|address, _| held.contains(address));
            for address in held {
                let since = *unsaid.entry(address).or_insert(one.now);
                prop_assert!(one.now < since + HOLD, "{address} is held for {:?}", one.now - since);
                if let Some(vip) = one.vips.get(&address) {
                    prop_assert!(is_wanted(vip), "{address} is in quarantine");
                    let router = vip.spec.virtual_router.as_ref();
                    prop_assert!(router.is_none_or(|router| !one.routers.contains_key(router)), "{address} is elsewhere");
                }
            }
            let mut keys: Vec<_> = one.desired.assignments.iter().map(|each| each.key().unwrap()).collect();
            let (count, sorted) = (keys.len(), keys.is_sorted());
            keys.dedup();
            prop_assert!(sorted && count == keys.len());
            let all: Vec<_> = addresses(&one.desired).collect();
            prop_assert_eq!(all.len(), one.does().len(), "an address is on two virtual routers");
        }
        one.take(&Step::Pass(HOLD.as_millis().try_into().unwrap()));
        prop_assert_eq!(&one.desired, &one.objects_say());
    }
}
