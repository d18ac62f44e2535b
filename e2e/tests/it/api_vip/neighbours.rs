//! Several pairs of hosts on one LAN, each with a VIP of its own and all defaults, that start at the same moment beside a router of
//! somebody else's.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Keepalived, Lab, Signal, await_that, scenario};

use super::{CHECK, address, await_alone, await_fit, await_served};
use crate::setup::LIMIT;

const PAIRS: [(&str, [&str; 2]); 3] =
    [("192.0.2.201", ["n1", "n2"]), ("192.0.2.202", ["n3", "n4"]), ("192.0.2.203", ["n5", "n6"])];
/// So many questions each VIP's node has to answer, alone: five seconds.
const ASKED: u64 = 500;

#[test]
fn three_vips_that_start_at_once_on_one_lan_take_no_vrid_of_each_other_and_none_of_keepalived()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(6).client("c1").client("c2").light().without_proxy();
    scenario("vip-neighbours", builder, async |lab| {
        let nodes: Vec<&str> = PAIRS.iter().flat_map(|(_, nodes)| *nodes).collect();
        let vips: Vec<IpAddr> = PAIRS.iter().map(|(vip, _)| address(vip)).collect::<Result<_, _>>()?;
        lab.host_backend("api", &nodes).await?;

        // The stranger has the VRID that the first VIP would have, if it were alone.
        start(lab, "n1", PAIRS[0].0)?;
        let wanted = lab.adverts("c1")?.next_with(vips[0], LIMIT)?.vrid;
        lab.stop_vip("n1", Signal::SIGTERM).await?;
        let stranger = address("192.0.2.199")?;
        lab.start_keepalived(
            "c2",
            Keepalived { vrid: wanted, priority: 100, interval_ms: 1000, address: stranger },
        )?;
        await_that("keepalived has its address", LIMIT, async || {
            let counts = lab.keepalived_counts("c2").await?;
            Ok((counts.became_master == 1).then_some(()))
        })
        .await?;

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
            let mut vrids = BTreeMap::from([(wanted, stranger)]);
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
                let answered =
                    |seen: &windlass_e2e::Answers| seen.owners.get(vip).map_or(0, |owner| owner.answered);
                ensure!(answered(&seen) >= answered(&before) + ASKED, "{vip}: {:?}", seen.owners.get(vip));
            }
            Ok(Some(()))
        })
        .await?;
        let seen = answering.stop()?;
        let wrong: Vec<_> = seen.doubled.iter().filter(|one| one.begin > settled).collect();
        ensure!(wrong.is_empty(), "several answered: {wrong:?}");
        let counts = lab.keepalived_counts("c2").await?;
        ensure!(counts.became_master == 1 && counts.errors == 0, "keepalived was disturbed: {counts:?}");
        let sender = lab.adverts("c1")?.next_of(wanted, Duration::from_secs(10))?;
        let host: IpAddr = lab.host("c2").context("the stranger")?.address.into();
        ensure!(sender == host, "{sender} sends adverts of VRID {wanted}, which is keepalived's");
        Ok(())
    })
}

fn start(lab: &Lab, node: &str, vip: &str) -> anyhow::Result<()> {
    lab.start_vip(node, &["--address", vip, "--check", CHECK])
}
