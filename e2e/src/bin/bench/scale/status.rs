//! What an admin waits for an answer about all of it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use windlass_e2e::Lab;

/// How often it is asked; the figure is the median.
const TIMES: usize = 5;

/// How long `windlass status` takes, from the start of the program to its end.
pub(crate) async fn time(lab: &Lab, services: usize) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let said = lab.windlass(&["status"]).await?;
        times.push(began.elapsed());
        let all = format!("{services}: {services} announced");
        ensure!(said.contains(&all), "{all:?} is not in what windlass status says:\n{said}");
    }
    times.sort();
    Ok(times[TIMES / 2])
}
