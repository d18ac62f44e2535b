//! When a controller that was started has done its work.

use std::time::Duration;

use anyhow::ensure;
use windlass_e2e::{Lab, await_that};

/// Where the controller counts what it does.
const PORT: u16 = 10258;
/// Services it has looked at and found, or made, right.
const DONE: &str = "windlass_ccm_syncs_total{controller=\"service\",result=\"success\"} ";

/// Waits until the controller has looked at `wanted` Services.
pub(crate) async fn await_looked_at(lab: &Lab, wanted: usize, limit: Duration) -> anyhow::Result<()> {
    await_that(&format!("the controller has looked at {wanted} Services"), limit, async || {
        let text = lab.ask_controller(PORT, "/metrics").await?;
        let done = text.lines().find_map(|line| line.strip_prefix(DONE)?.parse::<usize>().ok()).unwrap_or(0);
        ensure!(done >= wanted, "it has looked at {done}");
        Ok(Some(()))
    })
    .await
}
