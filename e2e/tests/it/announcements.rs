//! How addresses are announced is changed while they are in use.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, UdpSocket},
    path::Path,
};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_api::{Announcement, NodeNetwork, Transport, VirtualRouter};
use windlass_e2e::{ControllerOptions, Lab, Load, LoadOptions, SERVICE_PORT, await_that, scenario};

use crate::hostile::await_log;
use crate::setup::{
    LIMIT, annotate, await_answer, await_event, await_ingresses, await_verdict, dual_stack, ingresses, lab,
    router_of,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 40 };

// shows: field-reports F-35, F-48; threats T-14
#[test]
fn no_connection_breaks_and_no_request_is_lost_whatever_an_announcement_or_the_lan_changes()
-> anyhow::Result<()> {
    scenario("announcements", lab(), async |lab| {
        let vips = served(lab).await?;
        widen(lab, &vips).await?;
        let edge = |value: Value| json!({"nodeSelectors": [{"matchLabels": {"edge": value}}]});
        let preferred =
            json!({"preferredNodes": [{"weight": 10, "selector": {"matchLabels": {"fast": "yes"}}}]});
        label(lab, "n2", "fast").await?;
        for node in ["n1", "n3"] {
            label(lab, node, "edge").await?;
        }
        change(lab, &vips, "one comes for one of two pools", json!({"pools": ["default"]}), |_| true).await?;
        let faster = json!({"vrrp": {"advertisementIntervalMilliseconds": 50}});
        let is_faster = |router: &VirtualRouter| router.spec.advertisement_interval_milliseconds == 50;
        change(lab, &vips, "another interval", faster, is_faster).await?;
        for seconds in [30, 0] {
            let waits = |router: &VirtualRouter| router.spec.preempt_delay_seconds == seconds;
            let change_to = json!({"vrrp": {"preemptDelaySeconds": seconds}});
            change(lab, &vips, "a preemption delay", change_to, waits).await?;
        }
        for is_virtual in [true, false] {
            let at_mac = |router: &VirtualRouter| router.spec.virtual_mac == is_virtual;
            let change_to = json!({"vrrp": {"virtualMAC": is_virtual}});
            change(lab, &vips, "the MAC address", change_to, at_mac).await?;
        }
        let alone = |router: &VirtualRouter| !router.spec.unicast_fallback;
        change(lab, &vips, "no fallback", json!({"vrrp": {"unicastFallback": false}}), alone).await?;
        let on_eth0 = |router: &VirtualRouter| router.spec.nodes.iter().all(|node| node.interface == "eth0");
        for interfaces in [json!(["eth*"]), json!(["eth0"]), Value::Null] {
            change(lab, &vips, "interfaces", json!({"interfaces": interfaces}), on_eth0).await?;
        }
        let unicast = |router: &VirtualRouter| router.spec.transport == Transport::Unicast;
        change(lab, &vips, "unicast", json!({"vrrp": {"transport": "Unicast"}}), unicast).await?;
        let range = json!({"vrrp": {"vridRange": {"first": 200, "last": 220}}});
        change(lab, &vips, "VRIDs", range, |router| (200..=220).contains(&router.spec.vrid)).await?;
        sign(lab, &vips, 7).await?;
        // Another key: all have it before one signs with it, and the old one goes when nobody signs with that.
        let keys = lab.folder().join("keys");
        write_key(&keys, 8)?;
        for node in NODES {
            await_log(lab, node, &["this node has these VRRP keys", "[7, 8]"]).await?;
        }
        sign(lab, &vips, 8).await?;
        fs::remove_file(keys.join("7"))?;
        for node in NODES {
            await_log(lab, node, &["this node has these VRRP keys", "[8]"]).await?;
        }
        let first_is = |node: &'static str| {
            move |router: &VirtualRouter| {
                let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
                active == Some(node)
            }
        };
        change(lab, &vips, "preferred nodes", preferred, first_is("n2")).await?;
        let without_n2 = |router: &VirtualRouter| {
            !first_is("n2")(router) && router.spec.nodes.iter().all(|node| node.name != "n2")
        };
        change(lab, &vips, "nodes", edge(json!("yes")), without_n2).await?;
        let announcements: Api<Announcement> = Api::all(lab.client());
        let clients = clients(lab, &vips).await?;
        announcements.delete("default", &DeleteParams::default()).await?;
        await_routers(lab, &vips, None, &|router| router.spec.transport == Transport::Multicast).await?;
        unbroken("it goes", clients)
    })
}

#[test]
fn an_address_that_a_stranger_takes_is_yielded_and_announced_again_once_the_stranger_is_gone()
-> anyhow::Result<()> {
    scenario("announcements-yield", lab().client("c2"), async |lab| {
        lab.install_manifests().await?;
        lab.announcement("yielding", json!({"addressConflict": "Yield"})).await?;
        let vip = crate::setup::served(lab).await?;
        let stranger = lab.host("c2")?.mac();
        lab.exec("c2", &["ip", "address", "add", &format!("{vip}/24"), "dev", "eth0"]).await?;
        // Asking for a neighbour, from the address that it has taken, it claims that one.
        lab.within("c2", || UdpSocket::bind((vip, 0))?.send_to(b"", "192.0.2.199:9"))??;
        await_event(lab, "web", "AddressTaken", &[&vip.to_string(), &stranger.to_string()]).await?;
        await_verdict(lab, "default", "web", "False NotAnnounced", &[&stranger.to_string()]).await?;
        ensure!(lab.neighbours("c1", vip).await? == [stranger], "not the stranger alone answers for {vip}");
        lab.exec("c2", &["ip", "address", "delete", &format!("{vip}/24"), "dev", "eth0"]).await?;
        // It is asked for each minute.
        await_that(&format!("a node answers for {vip}"), 2 * LIMIT, async || {
            let hosts = lab.neighbours("c1", vip).await?;
            Ok((hosts.len() == 1 && hosts != [stranger]).then_some(()))
        })
        .await?;
        await_verdict(lab, "default", "web", "True Allocated", &[]).await?;
        await_answer(lab, vip).await
    })
}

#[test]
fn an_address_that_a_stranger_takes_is_defended_and_told_on_its_virtual_ip_and_its_service()
-> anyhow::Result<()> {
    scenario("announcements-defend", lab().client("c2"), async |lab| {
        lab.install_manifests().await?;
        let vip = crate::setup::served(lab).await?;
        let stranger = lab.host("c2")?.mac();
        lab.exec("c2", &["ip", "address", "add", &format!("{vip}/24"), "dev", "eth0"]).await?;
        lab.within("c2", || UdpSocket::bind((vip, 0))?.send_to(b"", "192.0.2.199:9"))??;
        await_event(lab, "web", "AddressConflict", &[&vip.to_string(), &stranger.to_string()]).await?;
        await_verdict(lab, "default", "web", "True AddressConflict", &[&stranger.to_string()]).await?;
        let object = lab.virtual_ip(vip).await?.context("no VirtualIP")?;
        let conflict = object.conflict().context("it tells of no conflict")?;
        ensure!(conflict.message.contains(&stranger.to_string()), "{conflict:?}");
        let hosts = lab.neighbours("c1", vip).await?;
        ensure!(hosts.len() == 2 && hosts.contains(&stranger), "not both answer for {vip}: {hosts:?}");
        Ok(())
    })
}

// shows: threats T-17
#[test]
fn an_address_that_a_stranger_has_is_announced_all_the_same_if_its_pool_says_so_and_that_is_told()
-> anyhow::Result<()> {
    scenario("announcements-claim", lab().client("c2"), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        let stranger = lab.host("c2")?.mac();
        for taken in ["192.0.2.200", "192.0.2.210"] {
            lab.exec("c2", &["ip", "address", "add", &format!("{taken}/24"), "dev", "eth0"]).await?;
        }
        lab.pool("default", &["192.0.2.200-192.0.2.201"]).await?;
        lab.pool_with("ours", &["192.0.2.210"], json!({"onAddressInUse": "Claim", "autoAssign": false}))
            .await?;
        lab.backend("web", &["n3"]).await?;
        for (name, pool) in [("ours", Some("ours")), ("other", None), ("waiting", None)] {
            lab.same_backend(name, "web")?;
            lab.load_balancer(name, |service| {
                if let Some(pool) = pool {
                    annotate(service, "windlass.dev/pool", pool);
                }
            })
            .await?;
        }
        let contested = async |name: &str, vip: IpAddr| -> anyhow::Result<()> {
            let words = [&*vip.to_string(), &stranger.to_string()];
            await_verdict(lab, "default", name, "True AddressConflict", &words).await?;
            await_event(lab, name, "AddressConflict", &words).await?;
            let hosts = lab.neighbours("c1", vip).await?;
            ensure!(hosts.len() == 2 && hosts.contains(&stranger), "{hosts:?} answer for {vip}");
            Ok(())
        };
        let vip = lab.ingress("ours", LIMIT).await?;
        ensure!(vip.to_string() == "192.0.2.210", "{vip}");
        contested("ours", vip).await?;

        // Where the pool says nothing, what a stranger has is left to it.
        let mut free = Vec::new();
        await_that("one of two Services has the address that no stranger has", LIMIT, async || {
            free = ingresses(lab, "other").await?;
            free.extend(ingresses(lab, "waiting").await?);
            ensure!(free.len() == 1, "{free:?}");
            Ok(Some(()))
        })
        .await?;
        ensure!(free[0].to_string() == "192.0.2.201", "{free:?}");
        await_answer(lab, free[0]).await?;
        ensure!(
            lab.neighbours("c1", "192.0.2.200".parse()?).await? == [stranger],
            "192.0.2.200 is announced"
        );
        Ok(())
    })
}

/// Windlass on three nodes whose agents have a key, and two Services of each of the pools `default` and `other`.
async fn served(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.install_manifests().await?;
    lab.start_controller(ControllerOptions::default())?;
    let keys = lab.folder().join("keys");
    write_key(&keys, 7)?;
    for node in NODES {
        lab.start_agent_with(node, &["--vrrp-keys-dir", &keys.display().to_string()])?;
    }
    lab.pool("default", &["192.0.2.200-192.0.2.219", "2001:db8::200-2001:db8::219"]).await?;
    lab.pool("other", &["192.0.2.220-192.0.2.239", "2001:db8::220-2001:db8::239"]).await?;
    lab.backend("a", &NODES).await?;
    let mut vips = Vec::new();
    for (name, pool) in [("a", "default"), ("b", "other"), ("c", "default"), ("d", "other")] {
        if name != "a" {
            lab.same_backend(name, "a")?;
        }
        lab.load_balancer(name, |service| {
            dual_stack(service);
            annotate(service, "windlass.dev/pool", pool);
        })
        .await?;
        vips.extend(await_ingresses(lab, name, 2).await?);
    }
    for vip in &vips {
        lab.await_owner("c1", *vip).await?;
    }
    Ok(vips)
}

/// Each id has a secret of its own.
fn write_key(folder: &Path, id: u8) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(id.to_string()), format!("hex:{id:064x}")).context("writing a key")
}

/// Has the adverts signed with this key, under load.
async fn sign(lab: &Lab, vips: &[IpAddr], key_id: u8) -> anyhow::Result<()> {
    let signed = |router: &VirtualRouter| router.spec.authentication.is_some_and(|how| how.key_id == key_id);
    let spec = json!({"vrrp": {"authentication": {"keyId": key_id}}});
    change(lab, vips, &format!("authentication with key {key_id}"), spec, signed).await
}

async fn label(lab: &Lab, node: &str, name: &str) -> anyhow::Result<()> {
    let change = Patch::Merge(json!({"metadata": {"labels": {name: "yes"}}}));
    Api::<Node>::all(lab.client()).patch(node, &PatchParams::default(), &change).await?;
    Ok(())
}

/// Makes or changes the Announcement, under load, and waits until each virtual router of the pool's addresses is `as_wanted`.
async fn change(
    lab: &Lab,
    vips: &[IpAddr],
    what: &str,
    spec: Value,
    as_wanted: impl Fn(&VirtualRouter) -> bool,
) -> anyhow::Result<()> {
    let clients = clients(lab, vips).await?;
    let announcements: Api<Announcement> = Api::all(lab.client());
    if announcements.get_opt("default").await?.is_some() {
        lab.change_announcement("default", spec).await?;
    } else {
        lab.announcement("default", spec).await?;
    }
    await_routers(lab, vips, Some("default"), &as_wanted).await.with_context(|| what.to_owned())?;
    unbroken(what, clients)
}

/// Waits until the addresses of pool `default` are of that Announcement and on routers that are `as_wanted`, and each is
/// answered for by the node that its router tells.
async fn await_routers(
    lab: &Lab,
    vips: &[IpAddr],
    announcement: Option<&str>,
    as_wanted: &impl Fn(&VirtualRouter) -> bool,
) -> anyhow::Result<()> {
    let announced = async |vip: &IpAddr| {
        await_that(&format!("{vip} is announced as it should be"), LIMIT, async || {
            let object = lab.virtual_ip(*vip).await?.context("no VirtualIP")?;
            let router = router_of(lab, *vip).await?;
            let of_pool = object.spec.pool == "default";
            let expected = announcement.filter(|_| of_pool);
            ensure!(object.spec.announcement.as_deref() == expected, "{:?}", object.spec);
            ensure!(router.spec.announcement.as_deref() == expected, "{:?}", router.spec);
            ensure!(!of_pool || as_wanted(&router), "{router:?}");
            let active = router.status.and_then(|status| status.active_node).context("nobody is Active")?;
            if router.spec.virtual_mac {
                // (No node is told by that address.)
                lab.curl("c1", *vip, SERVICE_PORT).await?;
            } else {
                let owner = lab.await_owner("c1", *vip).await?;
                ensure!(owner == active, "{owner} answers, {active} is Active");
            }
            Ok(Some(()))
        })
        .await
    };
    try_join_all(vips.iter().map(announced)).await.map(drop)
}

/// Widens the IPv4 subnet of one node after another from /24 to /23. No VIP changes its node or its virtual router, and a Service with
/// `externalTrafficPolicy: Local` loses nothing. (Of others the kernel forgets the connections that kube-proxy masquerades, together with
/// the address of the former length.)
async fn widen(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<()> {
    lab.same_backend("local", "a")?;
    lab.load_balancer("local", |service| {
        annotate(service, "windlass.dev/pool", "default");
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
    })
    .await?;
    let local = lab.ingress("local", LIMIT).await?;
    await_that(&format!("{local} is answered"), LIMIT, async || {
        lab.curl("c1", local, SERVICE_PORT).await.map(Some)
    })
    .await?;
    let vips = &[vips, &[local]].concat();
    await_routers(lab, vips, None, &|_| true).await?;
    let before = routers(lab, vips).await?;
    let (answering, clients) = (lab.answering("c1", vips)?, clients(lab, &[local]).await?);
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    for node in NODES {
        let address = lab.node(node)?.address();
        let widened = format!("{address}/23");
        let change = format!("ip addr add {widened} brd + dev eth0 && ip addr del {address}/24 dev eth0");
        lab.exec(node, &["sh", "-c", &change]).await?;
        await_that(&format!("the agent of {node} reports {widened} alone"), LIMIT, async || {
            let interfaces = networks.get(node).await?.spec.interfaces;
            let all: Vec<_> = interfaces.into_iter().flat_map(|interface| interface.addresses).collect();
            let of_node = all.iter().filter(|one| one.starts_with(&format!("{address}/")));
            ensure!(of_node.eq([&widened]), "it reports {all:?}");
            Ok(Some(()))
        })
        .await?;
    }
    // The controller has read the reports once a new VIP is on the wide segment.
    lab.same_backend("late", "a")?;
    lab.load_balancer("late", |service| annotate(service, "windlass.dev/pool", "default")).await?;
    let late = lab.ingress("late", LIMIT).await?;
    let segment = router_of(lab, late).await?.spec.segment;
    ensure!(segment == "192.0.2.0/23", "{late} is on segment {segment}");
    let (after, seen) = (routers(lab, vips).await?, answering.stop()?);
    ensure!(after == before, "{before:?} became {after:?}");
    ensure!(seen.moves.values().all(|count| *count == 0), "VIPs moved: {:?}", seen.moves);
    unbroken("the LAN is widened", clients)
}

/// Names of the VIPs' virtual routers.
async fn routers(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<Vec<Option<String>>> {
    let router = async |vip: &IpAddr| anyhow::Ok(router_of(lab, *vip).await?.metadata.name);
    try_join_all(vips.iter().map(router)).await
}

async fn clients(lab: &Lab, vips: &[IpAddr]) -> anyhow::Result<BTreeMap<IpAddr, Load>> {
    let client = async |vip: &IpAddr| anyhow::Ok((*vip, lab.load("c1", *vip, SERVICE_PORT, CLIENT).await?));
    Ok(try_join_all(vips.iter().map(client)).await?.into_iter().collect())
}

fn unbroken(what: &str, clients: BTreeMap<IpAddr, Load>) -> anyhow::Result<()> {
    clients.values().for_each(Load::end);
    for (vip, client) in clients {
        let seen = client.stop()?;
        println!("{what}: {vip}: {seen:?}");
        ensure!(seen.failed == 0 && seen.broken == 0, "{what}: {vip}: {seen:?}");
    }
    Ok(())
}
