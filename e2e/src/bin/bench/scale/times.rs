//! Times until a new controller and `windlass status` are done with all Services.

use std::time::{Duration, Instant};

use anyhow::ensure;
use windlass_e2e::{Lab, await_that, statistics::Sorted};

/// Port of the controller's metrics.
const PORT: u16 = 10258;
/// Number of Services that it has looked at and found, or made, right.
const DONE: &str = "windlass_ccm_syncs_total{controller=\"service\",result=\"success\"} ";

/// Requests for the status; the figure is their median.
const TIMES: usize = 5;

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

/// Returns how long `windlass status` takes, from the start of the program to its end.
pub(crate) async fn status(lab: &Lab, services: usize) -> anyhow::Result<Option<Duration>> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let said = lab.windlass(&["status"]).await?;
        times.push(began.elapsed());
        let all = format!("{services}: {services} announced");
        ensure!(said.contains(&all), "{all:?} is not in what windlass status says:\n{said}");
    }
    Ok(times.into_iter().collect::<Sorted<_>>().median())
}
