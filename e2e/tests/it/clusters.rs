//! Several clusters with all defaults on one LAN: they begin with the same VRIDs, and part.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Instant,
};

use anyhow::{Context as _, ensure};
use kube::{Api, api::ListParams};
use windlass_api::VirtualRouter;
use windlass_e2e::{
    Answering, Cluster, ControllerOptions, Doubled, Lab, LoadOptions, Owner, SERVICE_PORT, await_that,
    clusters,
};

use crate::setup::{LIMIT, await_ingresses, dual_stack};

const NODES: [&str; 2] = ["n1", "n2"];
const SERVICES: [&str; 2] = ["web", "two"];
/// So many questions one node has to answer, alone.
const ASKED: u64 = 500;
/// And so often that is looked at.
const ROUNDS: u32 = 10;
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 20 };

// shows: field-reports F-27
#[test]
fn three_clusters_that_start_at_once_on_one_lan_take_no_vrid_and_no_address_of_each_other()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light();
    clusters("three-clusters", 3, &builder, async |lab, cluster| settle(lab, cluster).await)
}

async fn settle(lab: &Lab, cluster: &Cluster<'_>) -> anyhow::Result<()> {
    // Each cluster has as many addresses as its Services want.
    let nth = cluster.nth();
    let pool = [format!("192.0.2.2{nth}0-192.0.2.2{nth}1"), format!("2001:db8::2{nth}0-2001:db8::2{nth}1")];
    let own: Vec<IpAddr> = [
        format!("192.0.2.2{nth}0"),
        format!("192.0.2.2{nth}1"),
        format!("2001:db8::2{nth}0"),
        format!("2001:db8::2{nth}1"),
    ]
    .iter()
    .map(|address| address.parse())
    .collect::<Result<_, _>>()?;
    lab.install_manifests().await?;
    lab.pool("default", &pool.each_ref().map(String::as_str)).await?;
    lab.backend(SERVICES[0], &NODES).await?;
    lab.same_backend(SERVICES[1], SERVICES[0])?;
    for name in SERVICES {
        lab.load_balancer(name, dual_stack).await?;
    }
    let answering = cluster.answering(lab, "c1", &own)?;

    // All is there but Windlass, which starts in all of them at once.
    cluster.meet(&()).await?;
    lab.start_controller(ControllerOptions::default())?;
    NODES.iter().try_for_each(|node| lab.start_agent(node))?;
    let mut clients = Vec::new();
    for name in SERVICES {
        for vip in await_ingresses(lab, name, 2).await? {
            ensure!(own.contains(&vip), "{name} has {vip}, not one of {own:?}");
            await_that(&format!("{vip} is answered by whichever node has it"), LIMIT, async || {
                for node in NODES {
                    let family = if vip.is_ipv4() { "ip" } else { "ip6" };
                    let of_proxy = ["nft", "list", "map", family, "kube-proxy", "service-ips"];
                    let known = lab.exec(node, &of_proxy).await?;
                    ensure!(known.contains(&format!("{vip} .")), "kube-proxy of {node} does not know it");
                }
                lab.curl("c1", vip, SERVICE_PORT).await?;
                Ok(Some(()))
            })
            .await?;
            clients.push((vip, lab.load("c1", vip, SERVICE_PORT, CLIENT).await?));
        }
    }
    let begun = vrids(lab).await?;
    await_that("no VRID is of two clusters", LIMIT, async || {
        let all: Vec<Vrids> = cluster.meet(&vrids(lab).await?).await?;
        ensure!(are_apart(&all), "they have {all:?}");
        Ok(Some(()))
    })
    .await?;
    println!("{}: first {begun:?}, then {:?}", lab.name(), vrids(lab).await?);

    // And soon nothing changes any more.
    let (mut owners, mut before) = (await_alone(&answering, &own, &BTreeMap::new()).await?, BTreeMap::new());
    let mut settled = Instant::now();
    for round in 1.. {
        for (vip, Owner { node, .. }) in &owners {
            ensure!(node.starts_with(&format!("{nth}/")), "{node} answers for {vip} of cluster {nth}");
        }
        let (later, after) = (await_alone(&answering, &own, &owners).await?, routers(lab).await?);
        let stayed = |vip: &IpAddr| later[vip].node == owners[vip].node;
        if before == after && own.iter().all(stayed) {
            break;
        }
        ensure!(
            round < ROUNDS,
            "the virtual routers were {before:?}, and are {after:?}, {owners:?}, {later:?}"
        );
        (owners, before, settled) = (later, after, Instant::now());
    }
    let all: Vec<Vrids> = cluster.meet(&vrids(lab).await?).await?;
    ensure!(are_apart(&all), "{all:?}");
    let seen = answering.stop()?;
    // Two nodes of one cluster that start at once are both Active until one has heard the other's advert.
    let of_others = |node: &String| !node.starts_with(&format!("{nth}/"));
    let wrong = |one: &&Doubled| one.begin > settled || one.nodes.iter().any(of_others);
    let wrong: Vec<_> = seen.doubled.iter().filter(wrong).collect();
    ensure!(wrong.is_empty(), "several answered: {wrong:?}");
    for (vip, client) in clients {
        let seen = client.stop()?;
        println!("{}: {vip}: {seen:?}", lab.name());
        ensure!(seen.failed == 0 && seen.broken == 0, "{vip}: {seen:?}");
    }
    Ok(())
}

/// VRIDs of a cluster, by whether they are of IPv6.
type Vrids = BTreeSet<(bool, u8)>;

async fn vrids(lab: &Lab) -> anyhow::Result<Vrids> {
    Ok(routers(lab).await?.into_keys().collect())
}

/// The cluster's virtual routers by VRID: who is Active, and how often that has changed.
async fn routers(lab: &Lab) -> anyhow::Result<BTreeMap<(bool, u8), (Option<String>, i64)>> {
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    let all = routers.list(&ListParams::default()).await?.items.into_iter();
    let told = all.map(|router| {
        let status = router.status.unwrap_or_default();
        ((router.spec.segment.contains(':'), router.spec.vrid), (status.active_node, status.transitions))
    });
    Ok(told.collect())
}

/// Whether no two clusters have one VRID, and each has some.
fn are_apart(clusters: &[Vrids]) -> bool {
    let all: usize = clusters.iter().map(BTreeSet::len).sum();
    let distinct: BTreeSet<_> = clusters.iter().flatten().collect();
    distinct.len() == all && clusters.iter().all(|one| !one.is_empty())
}

/// Waits until the last that alone answered for each address has answered so many more questions.
async fn await_alone(
    answering: &Answering,
    vips: &[IpAddr],
    before: &BTreeMap<IpAddr, Owner>,
) -> anyhow::Result<BTreeMap<IpAddr, Owner>> {
    await_that("one node alone answers for each address", LIMIT, async || {
        let owners = answering.seen()?.owners;
        for vip in vips {
            let owner = owners.get(vip).with_context(|| format!("nobody answers for {vip}"))?;
            let same = before.get(vip).filter(|before| before.node == owner.node);
            let since = same.map_or(0, |before| before.answered);
            ensure!(owner.answered >= since + ASKED, "of {vip}: {owner:?}");
        }
        Ok(Some(owners))
    })
    .await
}
