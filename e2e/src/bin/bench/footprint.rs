//! `make bench-footprint`: how large Windlass is, on disk and in memory. Memory is that of the processes in the light lab with a real
//! etcd and API server, once 1,000 Services have an address each, all of them announced by one agent.

use std::{fmt, fs, path::Path};

use anyhow::Context as _;
use serde::Serialize;
use windlass_e2e::{Lab, Memory, Writes, image_archive, memory_mb, statistics::rounded, windlass_binary};

use crate::{results::publish, services};

const SERVICES: usize = 1000;
const NODE: &str = "n1";
/// Addresses for all of them, on the node's `eth0`.
const POOL: &str = "198.19.0.0/20";

/// One figure, in millions of bytes.
#[derive(Debug, Serialize)]
struct Row {
    measure: &'static str,
    value: f64,
}

impl Row {
    /// Rounded to what a measurement can tell.
    fn new(measure: &'static str, value: f64) -> Self {
        Self { measure, value: rounded(value, 10.0) }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:20} {:6.1}", self.measure, self.value)
    }
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    println!("bench: {SERVICES} Services");
    let lab = services::lab(1).without_proxy();
    let mut rows = Lab::run("bench-footprint", lab, async |lab| in_memory(lab).await)?;
    rows.push(Row::new("binary_mb", on_disk(&windlass_binary()?)?));
    rows.push(Row::new("image_mb", on_disk(&image_archive())?));
    publish("footprint", "", &rows)
}

async fn in_memory(lab: &Lab) -> anyhow::Result<Vec<Row>> {
    lab.deploy_windlass(&[NODE]).await?;
    services::pool(lab, POOL, "eth0").await?;
    let client = lab.client();
    lab.unused_services("footprint", SERVICES).await?;
    Writes::settled(&client).await?;
    let (agent, controller) = (lab.process_id(NODE, "agent")?, lab.process_id("cp", "controller")?);
    Ok(vec![
        Row::new("agent_mb", memory_mb(agent, Memory::Resident)?),
        Row::new("agent_peak_mb", memory_mb(agent, Memory::Peak)?),
        Row::new("controller_mb", memory_mb(controller, Memory::Resident)?),
        Row::new("controller_peak_mb", memory_mb(controller, Memory::Peak)?),
    ])
}

fn on_disk(file: &Path) -> anyhow::Result<f64> {
    let length = fs::metadata(file).with_context(|| format!("{}: run 'make image'", file.display()))?.len();
    Ok(f64::from(u32::try_from(length)?) / 1e6)
}
