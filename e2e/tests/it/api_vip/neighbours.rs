//! Several pairs of hosts on one LAN, each with a VIP of its own and all defaults, that start at the same moment beside routers of
//! somebody else's.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Answers, Frr, Keepalived, Lab, Signal, await_that, scenario};

use super::{CHECK, address, await_alone, await_fit, await_served};
use crate::setup::LIMIT;

const PAIRS: [(&str, [&str; 2]); 3] =
    [("192.0.2.201", ["n1", "n2"]), ("192.0.2.202", ["n3", "n4"]), ("192.0.2.203", ["n5", "n6"])];
/// keepalived's host and address.
const KEEPALIVED: (&str, Ipv4Addr) = ("c2", Ipv4Addr::new(192, 0, 2, 199));
/// FRR's.
const FRR: (&str, Ipv4Addr) = ("c3", Ipv4Addr::new(192, 0, 2, 198));
/// FRR counts Initialize to Backup, and Backup to Master.
const FROM_START_TO_ACTIVE: u64 = 2;
/// So many questions each VIP's node has to answer, alone: five seconds.
const ASKED: u64 = 500;

#[test]
fn three_vips_that_start_at_once_on_one_lan_take_no_vrid_of_each_other_and_none_of_keepalived_or_frr()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(6).client("c1").client("c2").client("c3").light().without_proxy();
    scenario("vip-neighbours", builder, async |lab| {
        let nodes: Vec<&str> = PAIRS.iter().flat_map(|(_, nodes)| *nodes).collect();
        let vips: Vec<IpAddr> = PAIRS.iter().map(|(vip, _)| address(vip)).collect::<Result<_, _>>()?;
        lab.host_backend("api", &nodes).await?;
        let strangers = start_strangers(lab).await?;

        let answering = lab.answering("c1", &vips)?;
        for (vip, nodes) in PAIRS {
            nodes.iter().try_for_each(|node| start(lab, node, vip))?;
        }
        await_fit(lab, &nodes).await?;
        for ((_, nodes), vip) in PAIRS.iter().zip(&vips) {
            await_served(lab, *vip, nodes).await?;
            await_alone(&answering, *vip, |node| nodes.contains(&node)).await?;
        }
        let adverts = lab.adverts("c1")?;
        let vrids = await_that("no two routers have one VRID", LIMIT, async || {
            let mut vrids = strangers.clone();
            for vip in &vips {
                let advert = adverts.next_with(*vip, LIMIT)?;
                let other = vrids.insert(advert.vrid, *vip);
                ensure!(other.is_none(), "{other:?} and {vip} have VRID {}", advert.vrid);
            }
            Ok(Some(vrids))
        })
        .await?;
        println!("{}: {vrids:?}", lab.name());

        // And nothing changes any more.
        let settled = Instant::now();
        let before = answering.seen()?;
        await_that("each VIP stays where it is", LIMIT, async || {
            let seen = answering.seen()?;
            for vip in &vips {
                let answered = |seen: &Answers| seen.owners.get(vip).map_or(0, |owner| owner.answered);
                ensure!(answered(&seen) >= answered(&before) + ASKED, "{vip}: {:?}", seen.owners.get(vip));
            }
            Ok(Some(()))
        })
        .await?;
        let seen = answering.stop()?;
        let wrong: Vec<_> = seen.doubled.iter().filter(|one| one.begin > settled).collect();
        ensure!(wrong.is_empty(), "several answered: {wrong:?}");
        ensure_strangers_are_undisturbed(lab, &strangers).await
    })
}

fn start(lab: &Lab, node: &str, vip: &str) -> anyhow::Result<()> {
    lab.start_vip(node, &["--address", vip, "--check", CHECK])
}

/// The VRID that a VIP has where nobody else is.
async fn vrid_alone(lab: &Lab, (vip, [node, _]): (&str, [&str; 2])) -> anyhow::Result<u8> {
    start(lab, node, vip)?;
    let vrid = lab.adverts("c1")?.next_with(address(vip)?, LIMIT)?.vrid;
    lab.stop_vip(node, Signal::SIGTERM).await?;
    Ok(vrid)
}

/// keepalived has the VRID that the first VIP would have, if it were alone, FRR that of the second. Returns whose is which.
async fn start_strangers(lab: &Lab) -> anyhow::Result<BTreeMap<u8, IpAddr>> {
    let (first, second) = (vrid_alone(lab, PAIRS[0]).await?, vrid_alone(lab, PAIRS[1]).await?);
    let (host, address) = KEEPALIVED;
    let router = Keepalived { vrid: first, priority: 100, interval_ms: 1000, address: address.into() };
    lab.start_keepalived(host, router)?;
    let (host, address) = FRR;
    lab.start_frr(host, Frr { vrid: second, address }).await?;
    await_that("keepalived and FRR have their addresses", LIMIT, async || {
        let (keepalived, frr) = (lab.keepalived_counts(KEEPALIVED.0).await?, lab.frr_status(FRR.0).await?);
        ensure!(keepalived.became_master == 1 && frr.is_active, "{keepalived:?}, {frr:?}");
        Ok(Some(()))
    })
    .await?;
    Ok([(first, KEEPALIVED.1.into()), (second, FRR.1.into())].into())
}

/// Each has become Active once, has found no fault with an advert, and is the only one that sends adverts of its VRID.
async fn ensure_strangers_are_undisturbed(lab: &Lab, strangers: &BTreeMap<u8, IpAddr>) -> anyhow::Result<()> {
    let counts = lab.keepalived_counts(KEEPALIVED.0).await?;
    ensure!(counts.became_master == 1 && counts.errors == 0, "keepalived was disturbed: {counts:?}");
    let status = lab.frr_status(FRR.0).await?;
    let undisturbed = status.is_active && status.transitions == FROM_START_TO_ACTIVE && status.received == 0;
    ensure!(undisturbed, "FRR was disturbed: {status:?}");
    let adverts = lab.adverts("c1")?;
    for (vrid, vip) in strangers {
        let stranger = [KEEPALIVED, FRR].iter().find(|(_, address)| address == vip).context("whose")?.0;
        let sender = adverts.next_of(*vrid, Duration::from_secs(10))?;
        let host: IpAddr = lab.host(stranger).context("the stranger")?.address.into();
        ensure!(sender == host, "{sender} sends adverts of VRID {vrid}, which is {stranger}'s");
    }
    Ok(())
}
