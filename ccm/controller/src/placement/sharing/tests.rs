use windlass_api::{OnAddressInUse, SharedBy, VirtualIPSpec, VirtualIPStatus};

use super::*;

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));

/// A shared address while time passes, in a controller that may be started again.
struct World {
    vip: VirtualIP,
    memory: SharingMemory,
    now: Timestamp,
}

impl World {
    fn new(active: Option<&str>) -> Self {
        let spec = VirtualIPSpec {
            address: ADDRESS,
            pool: "p".into(),
            former_pools: Vec::new(),
            owners: Vec::new(),
            virtual_router: None,
            announcement: None,
            sources: Vec::new(),
            ports: Vec::new(),
            external_traffic_policy: windlass_api::ExternalTrafficPolicy::Local,
            health_check_node_ports: Vec::new(),
            on_address_in_use: OnAddressInUse::Refuse,
            load_sharing: None,
            quarantine: None,
        };
        let mut vip = VirtualIP::new("192.0.2.200", spec);
        let active_node = active.map(str::to_owned);
        vip.status = Some(VirtualIPStatus { active_node, ..VirtualIPStatus::default() });
        Self { vip, memory: SharingMemory::default(), now: Timestamp::UNIX_EPOCH }
    }

    /// Plans and writes the lots after `seconds`; returns the seconds until they are to be planned again.
    fn plan(&mut self, seconds: i64, weights: &[(&str, usize)]) -> Option<i64> {
        self.now += jiff::SignedDuration::from_secs(seconds);
        self.memory.observe(&[std::sync::Arc::new(self.vip.clone())], self.now);
        let vip = self.vip.clone();
        let Next { lots, is_uneven, look_again } =
            next(&vip, &weights.iter().copied().collect(), &self.memory, self.now);
        let uneven = is_uneven.then_some(ADDRESS).into_iter().collect();
        self.memory.set_uneven(&uneven, self.now);
        self.vip.spec.load_sharing = lots.write(SharedBy::Connection, |_| Some(ADDRESS));
        look_again.map(|at| at.duration_since(self.now).as_secs())
    }

    fn restart(&mut self) {
        self.memory = SharingMemory::default();
    }

    /// Numbers of lots and of entries in histories.
    fn state(&self) -> (Vec<(&str, usize)>, usize) {
        let shared = self.vip.spec.load_sharing.as_ref().expect("shared");
        let count = |key: char| shared.lots.chars().filter(|one| *one == key).count();
        let counts = shared.nodes.iter().map(|node| (node.name.as_str(), count(node.key)));
        let former = shared.former_lots.iter().flat_map(|row| row.chars()).filter(|key| *key != '-').count();
        (counts.filter(|(_, count)| *count > 0).collect(), former)
    }
}

#[test]
fn the_node_that_had_an_address_is_the_former_server_of_the_lots_that_leave_it() {
    let mut world = World::new(Some("n1"));
    world.plan(0, &[("n1", 1), ("n2", 1)]);
    assert_eq!(world.state(), (vec![("n1", 60), ("n2", 60)], 60));
    let mut world = World::new(None);
    world.plan(0, &[("n1", 1), ("n2", 1)]);
    assert_eq!(world.state(), (vec![("n1", 60), ("n2", 60)], 0), "nobody had it");
}

#[test]
fn weights_that_change_count_after_ten_seconds_and_nodes_that_come_and_go_at_once() {
    let mut world = World::new(None);
    assert_eq!(world.plan(0, &[("n1", 1), ("n2", 1)]), None);
    assert_eq!(world.plan(1, &[("n1", 3), ("n2", 1)]), Some(10));
    assert_eq!(world.plan(9, &[("n1", 3), ("n2", 1)]), Some(1));
    assert_eq!(world.state().0, [("n1", 60), ("n2", 60)]);
    world.plan(1, &[("n1", 3), ("n2", 1)]);
    assert_eq!(world.state().0, [("n1", 90), ("n2", 30)]);
    // A storm that is over does not count.
    assert!(world.plan(1, &[("n1", 1), ("n2", 1)]).is_some());
    world.plan(5, &[("n1", 3), ("n2", 1)]);
    world.plan(5, &[("n1", 1), ("n2", 1)]);
    assert_eq!(world.state().0, [("n1", 90), ("n2", 30)]);
    world.plan(0, &[("n2", 1), ("n3", 1)]);
    assert_eq!(world.state().0, [("n2", 60), ("n3", 60)]);
    world.plan(0, &[]);
    assert_eq!(world.state().0, [("n2", 60), ("n3", 60)], "nobody is better");
}

#[test]
fn a_former_server_is_forgotten_after_an_hour_and_after_a_restart_an_hour_from_then() {
    for restarts in [false, true] {
        let mut world = World::new(Some("n1"));
        let weights = [("n1", 1), ("n2", 1)];
        world.plan(0, &weights);
        assert_eq!(world.plan(0, &weights), Some(3600));
        if restarts {
            world.plan(1800, &weights);
            world.restart();
            assert_eq!(world.plan(0, &weights), Some(3600));
        }
        assert_eq!(world.plan(3599, &weights), Some(1));
        assert_eq!(world.state().1, 60);
        assert_eq!(world.plan(1, &weights), None);
        assert_eq!(world.state().1, 0);
    }
}

#[test]
fn a_server_that_leaves_again_is_remembered_from_then_on() {
    let mut world = World::new(None);
    world.plan(0, &[("n1", 1)]);
    world.plan(0, &[("n2", 1)]);
    world.plan(0, &[("n2", 1)]);
    world.plan(1800, &[("n1", 1)]);
    world.plan(0, &[("n2", 1)]);
    world.plan(1801, &[("n2", 1)]);
    assert_eq!(world.state().1, 120, "n1 served half an hour ago");
}

#[test]
fn an_object_that_cannot_be_read_is_as_one_that_is_not_shared() {
    let mut world = World::new(Some("n1"));
    world.plan(0, &[("n1", 1), ("n2", 1)]);
    world.vip.spec.load_sharing.as_mut().expect("shared").lots = "?".repeat(120);
    world.plan(0, &[("n1", 1), ("n2", 1)]);
    assert_eq!(world.state(), (vec![("n1", 60), ("n2", 60)], 60));
}
