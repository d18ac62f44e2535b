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
/// The hosts of keepalived and FRR.
const STRANGERS: [&str; 2] = ["c2", "c3"];
/// The addresses that they hold.
const HELD: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 199), Ipv4Addr::new(192, 0, 2, 198)];
/// FRR counts Initialize to Backup, and Backup to Master.
const FROM_START_TO_ACTIVE: u64 = 2;
/// So many questions each VIP's node has to answer, alone: five seconds.
const ASKED: u64 = 500;

// shows: field-reports F-68
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
            let mut vrids: BTreeMap<u8, IpAddr> = strangers.into_iter().zip(HELD.map(IpAddr::V4)).collect();
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
        ensure_undisturbed(lab, strangers).await
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

/// keepalived has the VRID that the first VIP would have, if it were alone, FRR that of the second. Returns these.
async fn start_strangers(lab: &Lab) -> anyhow::Result<[u8; 2]> {
    let vrids = [vrid_alone(lab, PAIRS[0]).await?, vrid_alone(lab, PAIRS[1]).await?];
    let ([keepalived, frr], [first, second]) = (STRANGERS, HELD);
    let router = Keepalived { vrid: vrids[0], priority: 100, interval_ms: 1000, address: first.into() };
    lab.start_keepalived(keepalived, router)?;
    lab.start_frr(frr, Frr { vrid: vrids[1], address: second }).await?;
    await_that("keepalived and FRR have their addresses", LIMIT, async || {
        let (counts, status) = (lab.keepalived_counts(keepalived).await?, lab.frr_status(frr).await?);
        ensure!(counts.became_master == 1 && status.is_active, "{counts:?}, {status:?}");
        Ok(Some(()))
    })
    .await?;
    Ok(vrids)
}

/// Each has become Active once, has found no fault with an advert, and is the only one that sends adverts of its VRID.
async fn ensure_undisturbed(lab: &Lab, vrids: [u8; 2]) -> anyhow::Result<()> {
    let [keepalived, frr] = STRANGERS;
    let counts = lab.keepalived_counts(keepalived).await?;
    ensure!(counts.became_master == 1 && counts.errors == 0, "keepalived was disturbed: {counts:?}");
    let status = lab.frr_status(frr).await?;
    let undisturbed = status.is_active && status.transitions == FROM_START_TO_ACTIVE && status.received == 0;
    ensure!(undisturbed, "FRR was disturbed: {status:?}");
    let adverts = lab.adverts("c1")?;
    for (stranger, vrid) in STRANGERS.into_iter().zip(vrids) {
        let sender = adverts.next_of(vrid, Duration::from_secs(10))?;
        let host: IpAddr = lab.host(stranger).context("the stranger")?.address.into();
        ensure!(sender == host, "{sender} sends adverts of VRID {vrid}, which is {stranger}'s");
    }
    Ok(())
}
