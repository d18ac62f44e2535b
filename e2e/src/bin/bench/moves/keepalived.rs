//! keepalived's side: one instance on n1 and one on n2, adverts as often as Windlass' are.

use std::net::{IpAddr, Ipv4Addr};

use windlass_e2e::{Keepalived, Lab};

use crate::moves::meter::{Meter, await_answer, await_owner};

const SYSTEM: &str = "keepalived";
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 190));
const SERVICE: &str = "keepalived";
const VRID: u8 = 250;

/// A graceful stop is its drain, its start again its way back.
pub(crate) async fn measure(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    lab.foreign_service(SERVICE, "web", ADDRESS).await?;
    start(lab, "n1")?;
    start(lab, "n2")?;
    await_owner(lab, ADDRESS, "n1").await?;
    await_answer(lab, ADDRESS).await?;
    let (away, back) = (|| await_owner(lab, ADDRESS, "n2"), || await_owner(lab, ADDRESS, "n1"));
    let stop = async || lab.stop_keepalived("n1").await;

    let drain = async || {
        stop().await?;
        away().await
    };
    meter.measure(SYSTEM, "drain", ADDRESS, drain).await?;
    let fail_back = async || {
        start(lab, "n1")?;
        back().await
    };
    meter.measure(SYSTEM, "fail-back", ADDRESS, fail_back).await?;
    let upgrade = async || {
        stop().await?;
        away().await?;
        start(lab, "n1")?;
        back().await
    };
    meter.measure(SYSTEM, "agent upgrade", ADDRESS, upgrade).await?;
    let reboot = async || {
        stop().await?;
        crate::moves::windlass::power_cycle(lab, "n1", away).await?;
        start(lab, "n1")?;
        back().await
    };
    meter.measure(SYSTEM, "node reboot", ADDRESS, reboot).await?;

    for node in ["n1", "n2"] {
        lab.stop_keepalived(node).await?;
    }
    lab.remove_service(SERVICE).await
}

fn start(lab: &Lab, node: &str) -> anyhow::Result<()> {
    let priority = if node == "n1" { 254 } else { 253 };
    let interval_ms = windlass_api::DEFAULT_ADVERTISEMENT_INTERVAL_MS;
    lab.start_keepalived(node, Keepalived { vrid: VRID, priority, interval_ms, address: ADDRESS })
}
