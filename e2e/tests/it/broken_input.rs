//! What agents work from is broken under them: the keys that sign, the disk, the objects that a hand edits. What works goes on, and
//! the rest is told or put right.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{
    AddressCounts, Announcement, CONDITION_ANNOUNCED, CONDITION_APPLIED, CONDITION_READY, VirtualIP,
    VirtualIPPool, VirtualRouter,
};
use windlass_e2e::{
    ControllerOptions, Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario, state_folder,
};

use crate::{
    health::await_told,
    hostile::await_log,
    setup::{LIMIT, await_answer, lab, moves, other, router_of},
};

const AGENTS: [&str; 2] = ["n1", "n2"];
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 40 };
/// 32 bytes in hexadecimal digits.
const KEY: &str = "hex:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER_KEY: &str = "hex:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

// shows: field-reports F-11; threats T-24
#[test]
fn broken_keys_a_full_disk_and_objects_edited_by_hand_move_nothing() -> anyhow::Result<()> {
    scenario("broken-input", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let before = moves(lab, vip).await?;
        let client = lab.load("c1", vip, SERVICE_PORT, CLIENT).await?;
        keys(lab, vip, &owner).await?;
        full_disk(lab).await?;
        ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
        ensure!(moves(lab, vip).await? == before, "{vip} has moved and come back");
        // From here on the status does not count as it should.
        statuses(lab, vip, &owner).await?;
        statuses_of_the_controller(lab).await?;
        ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
        nobody_named(lab, vip).await?;
        ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
        let seen = client.stop()?;
        println!("broken-input: {seen:?}");
        ensure!(seen.failed == 0 && seen.broken == 0, "{seen:?}");
        // These may cost the client something.
        newer_state(lab, vip, &owner).await?;
        another_secret(lab, vip).await
    })
}

/// What is done to the folder of keys.
type Fault<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;

/// The Secret as it is mounted on each node is empty, holds what is no key, cannot be read, and is missing.
async fn keys(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let empty = |keys: &Path| fs::remove_file(keys.join("7"));
    let nonsense = |keys: &Path| fs::write(keys.join("7"), "secret");
    let unreadable = |keys: &Path| fs::remove_dir_all(keys).and_then(|()| fs::write(keys, "secret"));
    let faults: [(Fault<'_>, &str); 3] = [
        (&empty, "it stays in use until the agent ends"),
        (&nonsense, "is no VRRP key"),
        (&unreadable, "cannot be read"),
    ];
    for (harm, told) in faults {
        for node in AGENTS {
            harm(&keys_of(lab, node)).with_context(|| told.to_owned())?;
        }
        for node in AGENTS {
            await_log(lab, node, &["WARN", told]).await?;
        }
        ensure!(lab.await_owner("c1", vip).await? == owner, "{told}: {vip} has left {owner}");
    }
    for node in AGENTS {
        fs::remove_file(keys_of(lab, node))?;
    }
    // Without the key an agent cannot begin: it would believe nobody. It does as soon as it has it.
    let heir = other(owner);
    lab.stop_agent(heir, Signal::SIGKILL).await?;
    start_agent(lab, heir)?;
    await_told(lab, heir, Some("VRRP key 7")).await?;
    ensure!(lab.await_owner("c1", vip).await? == owner, "{vip} has left {owner}");
    for node in AGENTS {
        write_key(lab, node)?;
    }
    await_told(lab, heir, None).await
}

/// There is no room for the state: what comes is announced all the same, and the fault is told.
async fn full_disk(lab: &Lab) -> anyhow::Result<()> {
    for node in AGENTS {
        let fill = format!("cat /dev/zero >{}/filler 2>/dev/null || true", state_folder(node));
        lab.exec("cp", &["sh", "-c", &fill]).await?;
    }
    lab.same_backend("late", "web")?;
    lab.load_balancer("late", |_| ()).await?;
    await_answer(lab, lab.ingress("late", LIMIT).await?).await?;
    for node in AGENTS {
        await_log(lab, node, &["ERROR", "cannot write the state"]).await?;
        let metrics = lab.agent_metrics(node).await?;
        ensure!(metrics.contains("\nwindlass_agent_state_write_failed 1\n"), "{node}: {metrics}");
    }
    for node in AGENTS {
        lab.exec("cp", &["rm", &format!("{}/filler", state_folder(node))]).await?;
        await_log(lab, node, &["INFO", "the state is on disk again"]).await?;
    }
    Ok(())
}

/// The admin writes nonsense into what the Active agent says.
async fn statuses(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let vips: Api<VirtualIP> = Api::all(lab.client());
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    let condition = json!({
        "type": CONDITION_ANNOUNCED, "status": "False", "reason": "Nonsense", "message": "written by hand",
        "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 1_000_000,
    });
    let name = lab.virtual_ip(vip).await?.context("no VirtualIP")?.name_any();
    let nonsense = json!({"status": {"activeNode": "nobody", "conditions": [condition]}});
    vips.patch_status(&name, &PatchParams::default(), &Patch::Merge(nonsense)).await?;
    let router = router_of(lab, vip).await?.name_any();
    let since = "1970-01-01T00:00:00Z";
    let nonsense = json!({"status": {"activeNode": "nobody", "activeSince": since}});
    routers.patch_status(&router, &PatchParams::default(), &Patch::Merge(nonsense)).await?;
    await_that(&format!("{owner} is said to have {vip} again"), LIMIT, async || {
        let told = lab.virtual_ip(vip).await?.context("no VirtualIP")?;
        let active = told.status.as_ref().and_then(|status| status.active_node.as_deref());
        ensure!(told.is_announced() && active == Some(owner), "{:?}", told.status);
        let told = router_of(lab, vip).await?.status.context("no status")?;
        let is_right =
            told.active_node.as_deref() == Some(owner) && told.active_since.as_deref() != Some(since);
        ensure!(is_right, "{told:?}");
        Ok(Some(()))
    })
    .await?;
    ensure!(lab.ingress("web", LIMIT).await? == vip, "web has another address than {vip}");
    Ok(())
}

/// The same with what the controller says of a pool and an Announcement.
async fn statuses_of_the_controller(lab: &Lab) -> anyhow::Result<()> {
    let pools: Api<VirtualIPPool> = Api::all(lab.client());
    let announcements: Api<Announcement> = Api::all(lab.client());
    let await_right = async |what: &str| {
        await_that(what, LIMIT, async || {
            let pool = pools.get("default").await?.status.context("no status of the pool")?;
            let (assigned, total) = (2, 51);
            let counts = AddressCounts { total, assigned, available: total - assigned, quarantined: 0 };
            ensure!(pool.ipv4 == Some(counts) && pool.ipv6.is_none(), "{pool:?}");
            let is_listed = |cidr: &str| pool.cidrs.iter().any(|listed| listed == cidr);
            ensure!(is_listed("192.0.2.250/32") && !is_listed("198.51.100.0/24"), "{pool:?}");
            ensure!(is_true(&pool.conditions, CONDITION_READY), "{pool:?}");
            let signed = announcements.get("signed").await?.status.context("no status of it")?;
            ensure!(signed.virtual_ips == assigned, "{signed:?}");
            ensure!(is_true(&signed.conditions, CONDITION_APPLIED), "{signed:?}");
            Ok(Some(()))
        })
        .await
    };
    await_right("the controller has said what is so").await?;
    let condition = |of: &str| {
        json!({
            "type": of, "status": "False", "reason": "Nonsense", "message": "written by hand",
            "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 1_000_000,
        })
    };
    let nonsense = json!({"status": {
        "ipv4": {"total": -5, "assigned": 999, "available": 7, "quarantined": 3},
        "ipv6": {"total": 1, "assigned": 1, "available": 1, "quarantined": 1},
        "cidrs": ["198.51.100.0/24"],
        "conditions": [condition(CONDITION_READY)],
    }});
    pools.patch_status("default", &PatchParams::default(), &Patch::Merge(nonsense)).await?;
    let nonsense = json!({"status": {"virtualIPs": 77, "conditions": [condition(CONDITION_APPLIED)]}});
    announcements.patch_status("signed", &PatchParams::default(), &Patch::Merge(nonsense)).await?;
    await_right("the controller says again what is so").await
}

fn is_true(conditions: &[Condition], of: &str) -> bool {
    let of_it: Vec<&Condition> = conditions.iter().filter(|one| one.type_ == of).collect();
    matches!(of_it.as_slice(), [one] if one.status == "True" && one.reason != "Nonsense")
}

/// The agent that has the address is one of an earlier version than wrote its state, as after a downgrade.
async fn newer_state(lab: &Lab, vip: IpAddr, owner: &str) -> anyhow::Result<()> {
    let folder = state_folder(owner);
    lab.stop_agent(owner, Signal::SIGKILL).await?;
    let make_newer = format!(r#"sed --in-place 's/"version":1/"version":2/' {folder}/state.json"#);
    lab.exec("cp", &["sh", "-c", &make_newer]).await?;
    start_agent(lab, owner)?;
    let told =
        ["ERROR", "the last known state is not used", "its format is version 2, this agent knows version 1"];
    await_log(lab, owner, &told).await?;
    let aside = lab.exec("cp", &["cat", &format!("{folder}/state.json.unusable")]).await?;
    ensure!(aside.starts_with(r#"{"version":2,"#), "set aside is {aside}");
    await_that(&format!("{owner} has {vip} again, and a state of its own"), LIMIT, async || {
        let state = lab.exec("cp", &["cat", &format!("{folder}/state.json")]).await?;
        ensure!(
            state.starts_with(r#"{"version":1,"#) && state.contains(&vip.to_string()),
            "its state is {state}"
        );
        let now = lab.await_owner("c1", vip).await?;
        ensure!(now == owner, "{now} has it");
        Ok(Some(()))
    })
    .await?;
    await_answer(lab, vip).await
}

/// Another secret comes under the number of the key in use. Whoever has it does not believe who does not; once both have it, one
/// node answers.
async fn another_secret(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    fs::write(keys_of(lab, AGENTS[0]).join("7"), OTHER_KEY)?;
    await_log(lab, AGENTS[0], &["WARN", "has another secret now", "id=7"]).await?;
    await_that(&format!("both nodes answer for {vip}: neither believes the other"), LIMIT, async || {
        let hosts = lab.neighbours("c1", vip).await?;
        ensure!(hosts.len() == 2, "{hosts:?} answer");
        Ok(Some(()))
    })
    .await?;
    fs::write(keys_of(lab, AGENTS[1]).join("7"), OTHER_KEY)?;
    await_log(lab, AGENTS[1], &["WARN", "has another secret now", "id=7"]).await?;
    lab.await_owner("c1", vip).await?;
    await_answer(lab, vip).await
}

/// A hand lets the virtual router name only nodes that do not exist.
async fn nobody_named(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    // An agent that was away has rejoined: nothing but the hand changes the ranking.
    let before = both_good(lab, vip).await?;
    let node = |name: &str, last: u8| json!({"name": name, "priority": 254, "address": format!("192.0.2.{last}"), "interface": "eth0"});
    let nodes: Vec<Value> = vec![node("nobody", 91), node("no-such-node", 92)];
    let nonsense = Patch::Merge(json!({"spec": {"nodes": nodes}}));
    let edited = routers.patch(&before.name_any(), &PatchParams::default(), &nonsense).await?;
    ensure!(edited.spec.nodes.len() == 2 && edited.spec != before.spec, "{:?}", edited.spec);
    await_that("the virtual router is as it was", LIMIT, async || {
        let now = router_of(lab, vip).await?;
        ensure!(now.name_any() == before.name_any() && now.spec.nodes == before.spec.nodes, "{:?}", now.spec);
        Ok(Some(()))
    })
    .await?;
    await_answer(lab, vip).await
}

/// Windlass that signs, with little room for its state, and the Service `web` behind one of its addresses.
async fn served(lab: &Lab) -> anyhow::Result<IpAddr> {
    lab.install_manifests().await?;
    lab.start_controller(ControllerOptions::default())?;
    for node in AGENTS {
        write_key(lab, node)?;
        let folder = state_folder(node);
        let mount = format!("mkdir -p {folder} && mount -t tmpfs -o size=256k state {folder}");
        lab.exec("cp", &["sh", "-c", &mount]).await.context("making a small disk for the agent's state")?;
    }
    // The other one comes later: it is not the first in the ranking, as it would be in one that is made of both.
    let [late, early] = AGENTS;
    start_agent(lab, early)?;
    lab.announcement("signed", json!({"vrrp": {"authentication": {"keyId": 7}}})).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |_| ()).await?;
    let vip = lab.ingress("web", LIMIT).await?;
    await_answer(lab, vip).await?;
    start_agent(lab, late)?;
    both_good(lab, vip).await?;
    Ok(vip)
}

/// The virtual router of `vip`, as soon as both nodes are good for it, and sign.
async fn both_good(lab: &Lab, vip: IpAddr) -> anyhow::Result<VirtualRouter> {
    await_that("both nodes are good for it, and sign", LIMIT, async || {
        let router = router_of(lab, vip).await?;
        let good = router.spec.nodes.iter().filter(|node| node.priority > 60 && !node.joining).count();
        ensure!(router.spec.authentication.is_some() && good == 2, "{:?}", router.spec);
        Ok(Some(router))
    })
    .await
}

fn start_agent(lab: &Lab, node: &str) -> anyhow::Result<()> {
    lab.start_agent_with(node, &["--vrrp-keys-dir", &keys_of(lab, node).display().to_string()])
}

/// The Secret as a node has it.
fn keys_of(lab: &Lab, node: &str) -> std::path::PathBuf {
    lab.folder().join(format!("keys-{node}"))
}

fn write_key(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let keys = keys_of(lab, node);
    fs::create_dir_all(&keys)?;
    Ok(fs::write(keys.join("7"), KEY)?)
}
