//! Everything that a hand can do to pools, objects and statuses, at random, with controllers that are killed and started
//! again in between, and no Service that nobody edits ever gets another address.
//!
//! An address has two memories, its object and its Service's status. What destroys both of one Service before any controller
//! has looked leaves nothing to remember by: a hand does not damage the second before the first is whole again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_ccm::testing::faults::{Disconnect, Random};

use super::lives::{annotated_port, ingress};
use super::memories::vip_key;
use super::rig::{Rig, Running, custom, key, pool, text};
use super::scenarios::{annotated, dual};

/// Services of other load balancers.
const FOREIGN: [&str; 2] = ["foreign", "foreign-2"];

/// What a Service asks for that is made anew by force: its pool keeps back for it what it had.
fn in_quiet_pool() -> Value {
    annotated(&json!({ "windlass.dev/pool": "quiet" }))
}

/// Services that nobody edits, and what they ask for.
fn steady() -> Vec<(&'static str, Value)> {
    let mut named_dual = dual("PreferDualStack");
    named_dual["metadata"] = annotated(&json!({ "windlass.dev/pool": "pa" }))["metadata"].clone();
    let shared = |port| annotated_port(port, &json!({ "windlass.dev/sharing-key": "k" }));
    vec![
        ("plain", json!({})),
        ("remade", in_quiet_pool()),
        ("named", annotated(&json!({ "windlass.dev/pool": "pa" }))),
        ("named-dual", named_dual),
        ("dual", dual("RequireDualStack")),
        ("two", annotated(&json!({ "windlass.dev/address-count": "2" }))),
        ("shares-80", shared(80)),
        ("shares-81", shared(81)),
    ]
}

struct Cluster {
    rig: Rig,
    dice: Random,
    controller: Option<Running>,
    /// One that is cut off at one of its next writes.
    dying: Option<Running>,
    agent_runs: bool,
    had: BTreeMap<&'static str, Vec<String>>,
    /// Addresses that no guest may be given: those that a Service of another load balancer shows since before the guest was made,
    /// and of which no object says whose they are.
    not_for: BTreeMap<&'static str, BTreeSet<String>>,
    log: Vec<String>,
}

impl Cluster {
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let index = usize::try_from(self.dice.below(of.len() as u64)).expect("small");
        of[index].clone()
    }

    fn do_it(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    /// Whether both memories of what the Service has are as they were.
    fn is_whole(&self, name: &str) -> bool {
        let uid_of = |name: &str| self.rig.api.get(&key(name)).unwrap_or_default()["metadata"]["uid"].clone();
        let is_as_it_was = |address: &String| {
            let vip = self.rig.api.get(&vip_key(address)).unwrap_or_default();
            let owners = vip["spec"]["owners"].as_array().cloned().unwrap_or_default();
            let shows = |owner: &Value| {
                let name = text(&owner["name"]);
                let may = self.had.get(name.as_str()).is_none_or(|had| had.contains(address));
                may && uid_of(&name) == owner["uid"] && self.rig.shown(&name).contains(address)
            };
            vip["spec"]["quarantine"].is_null()
                && !matches!(text(&vip["spec"]["pool"]).as_str(), "../.." | "nowhere")
                && owners.iter().any(|owner| owner["uid"] == uid_of(name))
                && owners.iter().all(shows)
        };
        let had = &self.had[name];
        had.iter().all(|address| self.rig.shown(name).contains(address) && is_as_it_was(address))
    }

    /// A Service whose memories are whole, with all who share with it.
    fn victim(&mut self) -> Option<&'static str> {
        let names: Vec<&'static str> = self.had.keys().copied().collect();
        let name = self.pick(&names);
        let shares = |name: &str| name.starts_with("shares");
        let party = names.iter().filter(|one| **one == name || (shares(one) && shares(name)));
        party.into_iter().all(|one| self.is_whole(one)).then_some(name)
    }

    fn vandalise_status(&mut self) {
        let Some(name) = self.victim() else { return };
        if name == "remade" {
            return self.replace_by_force(name, &in_quiet_pool());
        }
        let forged = match self.dice.below(3) {
            0 => json!([]),
            1 => json!([{ "ip": format!("192.0.2.{}", 16 + self.dice.below(48)), "ipMode": "VIP" }]),
            _ => {
                json!([{ "ip": "2001:db8::15", "ipMode": "VIP" }, { "ip": format!("192.0.2.{}", 16 + self.dice.below(48)) }])
            }
        };
        self.do_it(format!("status of {name}: {forged}"));
        self.rig.edit(name, &ingress(&forged));
    }

    /// A Service of another UID and without a status.
    fn replace_by_force(&mut self, name: &str, shape: &Value) {
        self.do_it(format!("{name} made anew by force"));
        self.rig.edit(name, &json!({ "metadata": { "finalizers": null } }));
        self.rig.delete(name);
        self.rig.create(name, shape);
    }

    /// An address whose object may be harmed, with who has it: of a Service that nobody edits and whose memories are whole, or
    /// of another.
    fn object(&mut self) -> Option<(String, String)> {
        if self.dice.below(3) > 0 {
            let name = self.victim()?;
            return Some((name.to_owned(), self.had[name][0].clone()));
        }
        let name = self.pick(&["guest", "guest-2", "guest-3"]);
        let all = self.rig.shown(name);
        let address = all.into_iter().find(|one| !self.had.values().flatten().any(|had| had == one))?;
        self.rig.api.get(&vip_key(&address))?;
        Some((name.to_owned(), address))
    }

    fn vandalise_object(&mut self) {
        let Some((name, address)) = self.object() else { return };
        let key_of = vip_key(&address);
        let owners = self.rig.api.get(&key_of).unwrap_or_default()["spec"]["owners"].clone();
        let ghost = json!({ "namespace": "ns", "name": "ghost", "uid": "boo" });
        let other = self.pick(&["guest", "plain", "two", "named", "remade", "shares-81"]);
        if self.had.get(other).is_some_and(|had| *had != self.rig.shown(other)) {
            return;
        }
        let other = match self.rig.api.get(&key(other)) {
            Some(service) if other != name => {
                json!({ "namespace": "ns", "name": other, "uid": service["metadata"]["uid"] })
            }
            Some(_) | None => ghost.clone(),
        };
        let mut more = owners.as_array().cloned().unwrap_or_default();
        let spec = match self.dice.below(10) {
            0 => {
                self.do_it(format!("object of {name} deleted"));
                self.rig.api.delete(&key_of);
                return;
            }
            1 => json!({ "owners": [other] }),
            2 => {
                more.insert(0, other);
                json!({ "owners": more })
            }
            3 => json!({ "owners": [ghost] }),
            4 => {
                more.push(ghost);
                json!({ "owners": more })
            }
            5 => {
                json!({ "quarantine": { "reason": "Released", "until": "2026-01-02T01:00:00Z" }, "virtualRouter": "nowhere" })
            }
            6 => json!({ "pool": "nowhere", "formerPools": null }),
            7 => json!({ "loadSharing": null }),
            8 => {
                let node = json!({ "key": "x", "name": self.pick(&["n1", "n2", "nobody"]), "address": "192.0.2.251" });
                json!({ "loadSharing": { "nodes": [node], "lots": self.pick(&["x", "y"]).repeat(120), "formerLots": null } })
            }
            _ => json!({ "pool": "../..", "virtualRouter": null }),
        };
        self.do_it(format!("object of {name}: {spec}"));
        self.rig.api.edit(&key_of, &json!({ "spec": spec }));
    }

    fn edit_pools(&mut self) {
        let blocks = [
            "192.0.2.16/29",
            "192.0.2.24/29",
            "192.0.2.32/29",
            "192.0.2.40/29",
            "2001:db8::10/126",
            "2001:db8::14/126",
        ];
        let name = self.pick(&["pa", "pb", "pc"]);
        let path = format!("virtualippools//{name}");
        if self.dice.below(4) == 0 && self.rig.api.get(&path).is_some() {
            self.do_it(format!("pool {name} deleted"));
            return self.rig.api.delete(&path);
        }
        let some: Vec<&str> = blocks.into_iter().filter(|_| self.dice.below(2) == 0).collect();
        let spec = json!({ "addresses": some, "priority": self.dice.below(3), "quarantineSeconds": self.dice.below(3) * 30,
                           "disabled": self.dice.below(6) == 0, "autoAssign": self.dice.below(3) != 0 });
        self.do_it(format!("pool {name}: {spec}"));
        if self.rig.api.get(&path).is_some() {
            self.rig.api.edit(&path, &json!({ "spec": spec }));
        } else {
            let mut anew = pool(name, &some, &spec);
            anew["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.log.len()));
            self.rig.api.put(anew);
        }
    }

    /// Services that come, change and go beside the steady ones.
    fn edit_guests(&mut self) {
        let name = self.pick(&["guest", "guest-2", "guest-3"]);
        if !self.rig.exists(name) {
            let port = 80 + u16::try_from(self.dice.below(4)).expect("small");
            let annotations = self.pick(&[
                json!({ "windlass.dev/sharing-key": "k" }),
                json!({ "windlass.dev/pool": "pb" }),
                json!({ "windlass.dev/addresses": "192.0.2.17" }),
                json!({}),
            ]);
            self.do_it(format!("{name} made: {annotations}"));
            let mut not_for = self.shown_by_another();
            not_for.retain(|address| self.rig.api.get(&vip_key(address)).is_none());
            self.not_for.insert(name, not_for);
            return self.rig.create(name, &annotated_port(port, &annotations));
        }
        match self.dice.below(3) {
            0 => {
                self.do_it(format!("{name} deleted"));
                self.rig.delete(name);
            }
            1 => {
                self.do_it(format!("{name} deleted by force"));
                self.rig.edit(name, &json!({ "metadata": { "finalizers": null } }));
                self.rig.delete(name);
            }
            _ => {
                let ports = json!([{ "name": "p", "port": 80 + self.dice.below(3), "protocol": "TCP", "nodePort": 30080 }]);
                self.do_it(format!("{name} has ports {ports}"));
                self.rig.edit(name, &json!({ "spec": { "ports": ports } }));
            }
        }
    }

    /// What Services of other load balancers show.
    fn shown_by_another(&self) -> BTreeSet<String> {
        FOREIGN.iter().flat_map(|name| self.rig.shown(name)).collect()
    }

    /// Another load balancer gives its Services what it likes, but for the quiet pool: what that keeps back for a Service that is
    /// made anew is on nobody then.
    fn edit_foreign(&mut self) {
        let name = self.pick(&FOREIGN);
        let addresses: Vec<Value> = (0..self.dice.below(4))
            .map(|_| json!({ "ip": format!("192.0.2.{}", 16 + self.dice.below(32)) }))
            .collect();
        let status = ingress(&json!(addresses));
        if !self.rig.exists(name) {
            self.do_it(format!("{name} made: {status}"));
            self.rig.create(name, &json!({ "spec": { "loadBalancerClass": "example.com/other" } }));
            self.rig.edit(name, &status);
        } else if self.dice.below(3) == 0 {
            self.do_it(format!("{name} deleted"));
            self.rig.delete(name);
        } else {
            self.do_it(format!("{name}: {status}"));
            self.rig.edit(name, &status);
        }
        let shown = self.shown_by_another();
        for not_for in self.not_for.values_mut() {
            not_for.retain(|address| shown.contains(address));
        }
    }

    /// No node announces anything for a while.
    fn stop_or_start_agent(&mut self) {
        self.agent_runs = !self.agent_runs;
        if self.agent_runs {
            self.do_it("agent started");
            self.rig.start_agent();
        } else {
            self.do_it("agent stopped");
            self.rig.stop_agent();
        }
    }

    async fn kill_or_start(&mut self) {
        if let Some(running) = self.controller.take() {
            // As likely as not between two of its writes.
            if self.dice.below(2) == 0 {
                let at = 1 + usize::try_from(self.dice.below(4)).expect("small");
                let cut = self.pick(&[Disconnect::Before, Disconnect::After]);
                self.do_it(format!("controller dies at its write {at}, {cut:?}"));
                self.rig.cut(&running, at, cut);
                self.dying = Some(running);
                return;
            }
            self.do_it("controller killed");
            running.kill().await;
        } else {
            if let Some(dying) = self.dying.take() {
                dying.kill().await;
            }
            self.do_it("controller started");
            self.controller = Some(self.rig.controller());
        }
    }
}

/// The addresses that objects say are the Service's.
fn owned(rig: &Rig, name: &str) -> BTreeSet<String> {
    let owns = |vip: &Value| {
        vip["spec"]["owners"].as_array().into_iter().flatten().any(|owner| owner["name"] == name)
            && vip["spec"]["quarantine"].is_null()
    };
    rig.api
        .list("virtualips")
        .iter()
        .filter(|vip| owns(vip))
        .map(|vip| text(&vip["spec"]["address"]))
        .collect()
}

/// Number of lots of each node.
fn shares(lots: &str) -> Vec<usize> {
    let keys: BTreeSet<char> = lots.chars().collect();
    keys.into_iter().map(|key| lots.chars().filter(|one| *one == key).count()).collect()
}

async fn nobody_moves(seed: u64) {
    let pools = [
        pool("pa", &["192.0.2.16/28", "2001:db8::10/126"], &json!({})),
        pool("pb", &["192.0.2.32/28", "2001:db8::14/126"], &json!({ "priority": 200 })),
        pool("quiet", &["192.0.2.48/30"], &json!({ "autoAssign": false, "quarantineSeconds": 60 })),
    ];
    let mut rig = Rig::new(&pools);
    let load_sharing = ["None", "Local", "All"][usize::try_from(seed % 3).expect("small")];
    rig.api.put(custom("Announcement", "shares", &json!({ "loadSharing": load_sharing })));
    for (name, shape) in steady() {
        rig.create(name, &shape);
    }
    let controller = rig.controller();
    rig.settle().await;
    let had: BTreeMap<_, _> = steady().into_iter().map(|(name, _)| (name, rig.shown(name))).collect();
    assert!(had.values().all(|addresses| !addresses.is_empty()), "{had:?}");
    rig.create("guest", &json!({}));
    let mut world = Cluster {
        rig,
        dice: Random::new(seed),
        controller: Some(controller),
        dying: None,
        agent_runs: true,
        had,
        not_for: BTreeMap::new(),
        log: Vec::new(),
    };
    for _ in 0..60 {
        match world.dice.below(15) {
            0..3 => world.vandalise_status(),
            3..6 => world.vandalise_object(),
            6..8 => world.edit_pools(),
            8..10 => world.edit_guests(),
            10 => world.stop_or_start_agent(),
            11..13 => world.edit_foreign(),
            _ => world.kill_or_start().await,
        }
        let pause = world.dice.below(4) * world.dice.below(2000);
        sleep(Duration::from_millis(pause)).await;
    }
    if world.controller.is_none() {
        world.kill_or_start().await;
    }
    if !world.agent_runs {
        world.stop_or_start_agent();
    }
    world.rig.settle().await;
    let Cluster { rig, had, not_for, log, controller, .. } = world;
    for (name, addresses) in &not_for {
        let given: Vec<String> = rig.shown(name).into_iter().filter(|one| addresses.contains(one)).collect();
        let story = || format!("seed {seed}\n{}\n{}", log.join("\n"), rig.objects());
        assert!(
            given.is_empty(),
            "{name} was given {given:?}, which another load balancer's Service shows: {}",
            story()
        );
    }
    for (name, addresses) in &had {
        let story = || format!("seed {seed}: {name}\n{}\n{}", log.join("\n"), rig.objects());
        let shown = rig.shown(name);
        assert!(addresses.iter().all(|address| shown.contains(address)), "had {addresses:?}: {}", story());
        assert_eq!(owned(&rig, name), addresses.iter().cloned().collect(), "{}", story());
    }
    // No address on two that do not share.
    for vip in rig.api.list("virtualips").into_iter().filter(|vip| vip["spec"]["quarantine"].is_null()) {
        let names: Vec<String> = vip["spec"]["owners"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|owner| text(&owner["name"]))
            .collect();
        let is_shared = load_sharing == "All" && vip["spec"]["virtualRouter"].is_string();
        let shares = shares(&text(&vip["spec"]["loadSharing"]["lots"]));
        // A table that a vandal wrote stays for an hour, with all lots at one node.
        let is_right = if is_shared { shares == [60, 60] } else { shares.len() < 2 };
        assert!(is_right, "seed {seed}: {vip}\n{}", log.join("\n"));
        let alone = |name: &String| rig.sharing_key(name).is_empty();
        assert!(names.len() < 2 || !names.iter().any(alone), "seed {seed}: {vip}\n{}", log.join("\n"));
        let address = text(&vip["spec"]["address"]);
        for service in rig.api.list("services") {
            let name = text(&service["metadata"]["name"]);
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            let shows = rig.shown(&name).contains(&address);
            let story =
                || format!("seed {seed}: {name} shows {address}\n{}\n{}", log.join("\n"), rig.objects());
            assert!(!shows || names.contains(&name), "{}", story());
        }
    }
    if let Some(running) = controller {
        running.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_done_to_pools_objects_and_statuses_no_untouched_service_moves() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (first, runs) = (number("WINDLASS_SEED").unwrap_or(1), number("WINDLASS_RUNS").unwrap_or(90));
    for seed in first..first + runs {
        nobody_moves(seed).await;
    }
}
