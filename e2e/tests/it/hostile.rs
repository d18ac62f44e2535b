//! What an admin's slip, a stranger on the LAN or a dying controller cannot do: change an address, give it twice, or stop
//! what they have nothing to do with.

use std::{fs, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{
    ANNOTATION_ADDRESSES, ANNOTATION_POOL, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter,
};
use windlass_e2e::{
    ControllerOptions, Keepalived, Lab, Protocol, SERVICE_PORT, Signal, await_that, scenario, state_folder,
};

use crate::setup::{LIMIT, await_answer, await_event, lab, other, router_of, served};

/// Reason of the event when a Service cannot have what it asks for.
const FAILED: &str = "SyncLoadBalancerFailed";

#[test]
fn pools_and_ports_that_change_leave_the_addresses_in_use() -> anyhow::Result<()> {
    scenario("pool-edits", lab(), async |lab| {
        let vip = served(lab).await?;
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        let claim = lab.virtual_ip(vip).await?.context("no VirtualIP")?.uid();

        // An Announcement that comes, and another advertisement interval, to and fro, which nobody notices.
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        lab.announcement("lan", json!({"pools": ["default"]})).await?;
        for interval in [1000, 10, 100] {
            let vrrp = json!({"advertisementIntervalMilliseconds": interval});
            lab.change_announcement("lan", json!({"vrrp": vrrp})).await?;
            await_that(&format!("the virtual router has an interval of {interval} ms"), LIMIT, async || {
                let now = router_of(lab, vip).await?.spec.advertisement_interval_milliseconds;
                ensure!(now == interval, "it has {now} ms");
                Ok(Some(()))
            })
            .await?;
            lab.await_owner("c1", vip).await?;
        }
        let outcome = probe.stop()?;
        // (A few may be under way when it stops.)
        ensure!(outcome.sent - outcome.answered < 10, "answers were lost: {outcome:?}");

        // Shrunk to one other address, which the next Service gets; the one after that waits.
        let shrink = Patch::Merge(json!({"spec": {"addresses": ["192.0.2.210/32"]}}));
        pools.patch("default", &PatchParams::default(), &shrink).await?;
        lab.load_balancer("two", |_| ()).await?;
        let two = lab.ingress("two", LIMIT).await?;
        ensure!(two.to_string() == "192.0.2.210", "the shrunk pool gave {two}");
        lab.load_balancer("three", |_| ()).await?;
        await_event(lab, "three", FAILED, &["no free IPv4 address", "default"]).await?;

        // Deleted, and its addresses split over two others, of which one serves who waits.
        pools.delete("default", &DeleteParams::default()).await?;
        lab.pool("left", &["192.0.2.200-192.0.2.204"]).await?;
        let three = lab.ingress("three", LIMIT).await?;
        ensure!(three.to_string() == "192.0.2.201", "the new pool gave {three}: {vip} is in use");
        lab.pool("right", &["192.0.2.205-192.0.2.210"]).await?;
        for (address, pool) in [(vip, "left"), (two, "right"), (three, "left")] {
            await_that(&format!("{address} counts as of pool {pool}"), LIMIT, async || {
                let spec = lab.virtual_ip(address).await?.context("its VirtualIP is gone")?.spec;
                ensure!(spec.pool == pool, "its pool is {:?}", spec.pool);
                Ok(Some(()))
            })
            .await?;
        }

        let edits = [
            json!({"metadata": {"annotations": {"example.com/note": "changed"}}}),
            json!({"spec": {"externalTrafficPolicy": "Local"}}),
            json!({"spec": {"externalTrafficPolicy": "Cluster"}}),
            json!({"spec": {"ports": [
                {"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": 8080},
                {"name": "more", "protocol": "TCP", "port": 443, "targetPort": 8080},
            ]}}),
        ];
        let services: Api<Service> = Api::default_namespaced(lab.client());
        for edit in edits {
            services.patch("web", &PatchParams::default(), &Patch::Merge(edit)).await?;
        }
        // And a controller that knows nothing but what the cluster says.
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        lab.start_controller(ControllerOptions::default())?;
        lab.load_balancer("four", |_| ()).await?;
        lab.ingress("four", LIMIT).await?;
        for (name, address) in [("web", vip), ("two", two), ("three", three)] {
            let now = lab.ingress(name, LIMIT).await?;
            ensure!(now == address, "the address of {name} changed from {address} to {now}");
        }
        let same = lab.virtual_ip(vip).await?.and_then(|vip| vip.uid());
        ensure!(same == claim, "the claim to {vip} was made anew");
        await_answer(lab, vip).await
    })
}

#[test]
fn requests_that_cannot_be_met_are_explained_and_served_once_they_can() -> anyhow::Result<()> {
    scenario("requests", lab(), async |lab| {
        let vip = served(lab).await?;
        let taken = vip.to_string();
        let foreign = lab
            .load_balancer("foreign", |service| {
                service.spec.get_or_insert_default().load_balancer_class = Some("example.com/other".into());
                service.metadata.finalizers = Some(vec!["example.com/theirs".into()]);
            })
            .await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        let theirs = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}));
        let foreign = services.patch_status(&foreign.name_any(), &PatchParams::default(), &theirs).await?;
        // On ours, somebody else's finalizer.
        let mark = Patch::Merge(json!({"metadata": {"finalizers": [
            "service.kubernetes.io/load-balancer-cleanup", "example.com/theirs"
        ]}}));
        services.patch("web", &PatchParams::default(), &mark).await?;
        for (name, annotation, value, said) in [
            ("garbage", ANNOTATION_ADDRESSES, "192.0.2.2x", &["192.0.2.2x", "not an IP address"][..]),
            ("nowhere", ANNOTATION_ADDRESSES, "192.0.2.120", &["192.0.2.120", "in no pool", "default"]),
            ("taken", ANNOTATION_ADDRESSES, &*taken, &[&*taken, "held by Service default/"]),
            ("unknown", ANNOTATION_POOL, "gold", &["gold", "does not exist", "default"]),
        ] {
            let tweak = |service: &mut Service| {
                service.annotations_mut().insert(annotation.to_owned(), value.to_owned());
            };
            lab.load_balancer(name, tweak).await?;
            await_event(lab, name, FAILED, said).await?;
        }

        let six = |service: &mut Service| {
            service.spec.get_or_insert_default().ip_families = Some(vec!["IPv6".into()]);
        };
        lab.load_balancer("six", six).await?;
        await_event(lab, "six", FAILED, &["no free IPv6 address", "default"]).await?;

        // Each becomes possible in its own way. (No address rests before it is given again.)
        let at_once = json!({"spec": {"quarantineSeconds": 0}});
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        pools.patch("default", &PatchParams::default(), &Patch::Merge(at_once)).await?;
        let correct = json!({"metadata": {"annotations": {ANNOTATION_ADDRESSES: "192.0.2.222"}}});
        services.patch("garbage", &PatchParams::default(), &Patch::Merge(correct)).await?;
        lab.pool("gold", &["192.0.2.120-192.0.2.121"]).await?;
        services.delete("web", &DeleteParams::default()).await?;
        for (name, address) in [
            ("garbage", "192.0.2.222"),
            ("nowhere", "192.0.2.120"),
            ("taken", &*taken),
            ("unknown", "192.0.2.121"),
        ] {
            let got = lab.ingress(name, LIMIT).await?;
            ensure!(got.to_string() == address, "{name} got {got} instead of {address}");
        }

        let gone = services.get("web").await?;
        ensure!(gone.finalizers() == ["example.com/theirs"], "finalizers of web: {:?}", gone.finalizers());

        // A request that a served Service cannot have leaves it what it has.
        let greedy = json!({"metadata": {"annotations": {ANNOTATION_ADDRESSES: "192.0.2.222"}}});
        services.patch("taken", &PatchParams::default(), &Patch::Merge(greedy)).await?;
        await_event(lab, "taken", FAILED, &["192.0.2.222", "held by Service default/"]).await?;
        let kept = lab.ingress("taken", LIMIT).await?;
        ensure!(kept == vip, "it had {vip} and has {kept}");

        let now = services.get("foreign").await?;
        ensure!(now.resource_version() == foreign.resource_version(), "Windlass wrote it: {now:?}");
        let events = lab.events_of("Service", "foreign").await?;
        ensure!(events.is_empty(), "Windlass spoke of it: {events:?}");
        Ok(())
    })
}

// shows: field-reports F-27
#[test]
fn stranger_with_our_vrid_and_the_highest_priority_is_reported_never_obeyed_and_left_the_vrid()
-> anyhow::Result<()> {
    scenario("stranger", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let router = router_of(lab, vip).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;

        let address = "192.0.2.190".parse()?;
        let router_of_c1 = Keepalived { vrid: router.spec.vrid, priority: 255, interval_ms: 100, address };
        lab.start_keepalived("c1", router_of_c1)?;

        let stranger = lab.host("c1")?.address;
        let networks: Api<NodeNetwork> = Api::all(lab.client());
        for node in ["n1", "n2"] {
            await_that(&format!("{node} reports the stranger"), LIMIT, async || {
                let heard = networks.get(node).await?.spec.foreign_routers;
                let known = heard.iter().any(|one| {
                    one.source == IpAddr::from(stranger) && one.vrid == router.spec.vrid && one.version == 3
                });
                ensure!(known, "it reports {heard:?}");
                Ok(Some(()))
            })
            .await?;
        }
        await_that(&format!("the address leaves VRID {}", router.spec.vrid), LIMIT, async || {
            let now = router_of(lab, vip).await?;
            ensure!(now.spec.vrid != router.spec.vrid, "it is on {}", now.name_any());
            ensure!(now.spec.nodes == router.spec.nodes, "its nodes were {:?}", router.spec.nodes);
            let active = now.status.and_then(|status| status.active_node);
            ensure!(active.as_ref() == Some(&owner), "{active:?} is Active");
            Ok(Some(()))
        })
        .await?;
        let still = lab.await_owner("c1", vip).await?;
        ensure!(still == owner, "{owner} was Active before the stranger came, {still} is now");
        let outcome = probe.stop()?;
        // (A few may be under way when it stops.)
        ensure!(outcome.sent - outcome.answered < 10, "the stranger cost answers: {outcome:?}");
        Ok(())
    })
}

// shows: field-reports F-18
#[test]
fn nonsense_in_objects_and_state_files_harms_nothing_else() -> anyhow::Result<()> {
    scenario("nonsense", lab(), async |lab| {
        let vip = served(lab).await?;
        lab.same_backend("two", "web")?;
        lab.load_balancer("two", |_| ()).await?;
        let two = lab.ingress("two", LIMIT).await?;
        let routers: Api<VirtualRouter> = Api::all(lab.client());
        let vips: Api<VirtualIP> = Api::all(lab.client());
        let mine = router_of(lab, vip).await?;
        let its = router_of(lab, two).await?;
        ensure!(mine.name_any() != its.name_any(), "both are on {}", mine.name_any());

        let node = |edit: &dyn Fn(&mut Value)| {
            let mut nodes = json!(its.spec.nodes);
            edit(&mut nodes[0]);
            json!({"spec": {"nodes": nodes}})
        };
        for (nonsense, said) in [
            (json!({"spec": {"vrid": 0}}), "spec.vrid"),
            (json!({"spec": {"vrid": 77}}), "never changes"),
            (node(&|node| node["priority"] = json!(255)), "priority"),
            (node(&|node| node["address"] = json!("garbage")), "garbage"),
        ] {
            let refused =
                routers.patch(&its.name_any(), &PatchParams::default(), &Patch::Merge(&nonsense)).await;
            let refusal = refused.err().with_context(|| format!("{nonsense} was accepted"))?;
            ensure!(refusal.to_string().contains(said), "{nonsense}: {refusal}");
        }

        // What the API server lets through, while no controller is there to put it right.
        lab.stop_controller("controller", Signal::SIGTERM).await?;
        let nowhere = node(&|node| node["interface"] = json!("nope0"));
        routers.patch(&its.name_any(), &PatchParams::default(), &Patch::Merge(&nowhere)).await?;
        let mut twin = VirtualRouter::new("a-twin", mine.spec.clone());
        twin.spec.nodes.reverse();
        routers.create(&PostParams::default(), &twin).await?;
        let lead_astray = json!({"spec": {"virtualRouter": "a-twin"}});
        vips.patch(&two.to_string(), &PatchParams::default(), &Patch::Merge(lead_astray)).await?;
        for agent in ["n1", "n2"] {
            await_log(lab, agent, &["VirtualRouter a-twin", &format!("VRID {}", mine.spec.vrid)]).await?;
        }
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await?;
        lab.start_controller(ControllerOptions::default())?;
        lab.await_owner("c1", two).await?;
        await_answer(lab, two).await?;
        ensure!(router_of(lab, two).await?.name_any() != "a-twin", "{two} is still on the twin");

        // A claim does not change hands, and one that was deleted is made again.
        let stolen = json!({"spec": {"owners": [{"namespace": "default", "name": "ghost", "uid": "none"}]}});
        let refused = vips.patch(&two.to_string(), &PatchParams::default(), &Patch::Merge(stolen)).await;
        let refusal = refused.err().context("another owner was accepted")?;
        ensure!(refusal.to_string().contains("one owner of a VirtualIP must stay"), "{refusal}");
        let mut forged =
            VirtualIP::new("192.0.2.12", lab.virtual_ip(vip).await?.context("no VirtualIP")?.spec);
        forged.spec.address = lab.node("n2")?.address().into();
        vips.create(&PostParams::default(), &forged).await?;
        let served = lab.neighbours("c1", forged.spec.address).await?;
        ensure!(served == [lab.node("n2")?.mac()], "{served:?} answer for the address of n2");
        vips.delete(&two.to_string(), &DeleteParams::default()).await?;
        await_claim(lab, two, "two").await?;
        let same = lab.ingress("two", LIMIT).await?;
        ensure!(same == two, "the address of two changed from {two} to {same}");
        await_answer(lab, two).await?;

        // No API server, and a node whose state file is of no use: it says so and leaves the field to the other.
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_api_server().await?;
        let (file, theirs) = (state_file(&owner), state_file(other(&owner)));
        for (ruin, said) in [
            (format!("truncate --size=40 {file}"), "it is damaged"),
            (format!("head --bytes=300 /dev/urandom > {file}"), "it is damaged"),
            (format!("cp {theirs} {file}"), "it was written on node"),
        ] {
            lab.stop_agent(&owner, Signal::SIGKILL).await?;
            let before = log(lab, &owner)?.len();
            lab.exec(&owner, &["sh", "-c", &ruin]).await?;
            lab.start_agent(&owner)?;
            await_that(&format!("after {ruin:?} the agent says {said:?}"), LIMIT, async || {
                let words = log(lab, &owner)?.split_off(before);
                let lines: Vec<_> = words.lines().filter(|line| line.contains(said)).collect();
                ensure!(lines.len() == 1, "it says {words}");
                Ok(Some(()))
            })
            .await?;
            lab.await_owner_other_than("c1", vip, &owner).await?;
            await_answer(lab, vip).await?;
        }
        lab.start_api_server().await?;
        lab.stop_agent(other(&owner), Signal::SIGKILL).await?;
        lab.await_owner_other_than("c1", vip, other(&owner)).await?;
        await_answer(lab, vip).await
    })
}

// shows: field-reports F-74
#[test]
fn controllers_that_die_or_sleep_hand_over_without_touching_an_address() -> anyhow::Result<()> {
    scenario("leaders", lab(), async |lab| {
        let vip = served(lab).await?;
        let standby = ControllerOptions { name: "standby".into(), http_port: 10268, flags: Vec::new() };
        lab.start_controller(standby)?;
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        lab.load_balancer("two", |_| ()).await?;
        let two = lab.ingress("two", LIMIT).await?;

        // The one that leads now sleeps until another leads, and wakes up believing that it still does.
        lab.start_controller(ControllerOptions::default())?;
        lab.signal_controller("standby", Signal::SIGSTOP)?;
        lab.load_balancer("three", |_| ()).await?;
        let three = lab.ingress("three", LIMIT).await?;
        lab.load_balancer("four", |_| ()).await?;
        lab.signal_controller("standby", Signal::SIGCONT)?;
        await_that("the controller that lost its lease ends, and says why", LIMIT, async || {
            let words = fs::read_to_string(lab.logs().join("cp-standby.log"))?;
            let (_, since) = words.split_once("leaderelection lost").with_context(|| words.clone())?;
            // The lab starts it again only once it has ended.
            ensure!(since.contains("serving HTTPS"), "{words}");
            Ok(Some(()))
        })
        .await?;
        let four = lab.ingress("four", LIMIT).await?;
        for (name, address) in [("web", vip), ("two", two), ("three", three)] {
            let now = lab.ingress(name, LIMIT).await?;
            ensure!(now == address, "the address of {name} changed from {address} to {now}");
        }
        let all: Api<VirtualIP> = Api::all(lab.client());
        let mut claimed: Vec<_> = all.list(&ListParams::default()).await?.items;
        claimed.sort_by_key(|vip| vip.spec.address);
        let claimed: Vec<_> = claimed.iter().map(|vip| vip.spec.address).collect();
        let mut given = vec![vip, two, three, four];
        given.sort_unstable();
        ensure!(claimed == given, "claimed are {claimed:?}, given {given:?}");
        await_answer(lab, vip).await
    })
}

// shows: allocation 93, 94, 115; field-reports F-20; placement P-13
#[test]
fn node_that_is_cut_off_excluded_or_deleted_leaves_exactly_one_owner() -> anyhow::Result<()> {
    scenario("node-life", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.partition(&[&owner])?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;
        lab.heal()?;
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await?;

        // The other way round: the client is with the node that is to give way.
        let owner = lab.await_owner("c1", vip).await?;
        lab.partition(&["c1", other(&owner), "n3"])?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        lab.heal()?;
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await?;

        let nodes: Api<Node> = Api::all(lab.client());
        let owner = lab.await_owner("c1", vip).await?;
        let label = "node.kubernetes.io/exclude-from-external-load-balancers";
        let exclude = Patch::Merge(json!({"metadata": {"labels": {label: ""}}}));
        nodes.patch(&owner, &PatchParams::default(), &exclude).await?;
        let second = lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;

        // It would rank last; with the other one deleted it is the last, and serves.
        let mut again = nodes.get(&second).await?;
        nodes.delete(&second, &DeleteParams::default()).await?;
        lab.await_owner_other_than("c1", vip, &second).await?;
        await_answer(lab, vip).await?;

        again.metadata.uid = None;
        again.metadata.resource_version = None;
        nodes.create(&PostParams::default(), &again).await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;
        let same = lab.ingress("web", LIMIT).await?;
        ensure!(same == vip, "the address changed from {vip} to {same}");
        Ok(())
    })
}

/// Waits until the address is claimed for the Service.
async fn await_claim(lab: &Lab, address: IpAddr, service: &str) -> anyhow::Result<()> {
    await_that(&format!("{address} is claimed for Service {service}"), LIMIT, async || {
        let vip = lab.virtual_ip(address).await?.context("there is no claim")?;
        ensure!(vip.spec.owners[0].name == service, "{:?}", vip.spec.owners);
        Ok(Some(()))
    })
    .await
}

/// Waits until one line of the agent's log says all of `words`.
pub(crate) async fn await_log(lab: &Lab, node: &str, words: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("the agent of {node} says {words:?}"), LIMIT, async || {
        let said = log(lab, node)?;
        let told = said.lines().any(|line| words.iter().all(|word| line.contains(word)));
        ensure!(told, "it says {said}");
        Ok(Some(()))
    })
    .await
}

fn log(lab: &Lab, node: &str) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(lab.logs().join(format!("{node}-agent.log")))?).into_owned())
}

fn state_file(node: &str) -> String {
    format!("{}/state.json", state_folder(node))
}
