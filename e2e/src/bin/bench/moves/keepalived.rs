//! keepalived's side: one instance on n1 and one on n2, adverts as often as Windlass' are.

use windlass_api::DEFAULT_ADVERTISEMENT_INTERVAL_MS;
use windlass_e2e::Lab;

use super::{meter::Meter, windlass::power_cycle};
use crate::{
    pair::{self, ADDRESS},
    system::{System, await_answer, await_owner},
};

const SYSTEM: &str = System::Keepalived.name();

/// A graceful stop is its drain, its start again its way back.
pub(crate) async fn measure(lab: &Lab, meter: &mut Meter<'_>) -> anyhow::Result<()> {
    pair::start(lab, DEFAULT_ADVERTISEMENT_INTERVAL_MS, priority).await?;
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
        power_cycle(lab, "n1", away).await?;
        start(lab, "n1")?;
        back().await
    };
    meter.measure(SYSTEM, "node reboot", ADDRESS, reboot).await?;

    pair::stop(lab).await
}

fn start(lab: &Lab, node: &str) -> anyhow::Result<()> {
    pair::start_on(lab, node, DEFAULT_ADVERTISEMENT_INTERVAL_MS, priority(node))
}

fn priority(node: &str) -> u8 {
    if node == "n1" { 254 } else { 253 }
}
