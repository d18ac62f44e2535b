//! `make bench-footprint`: how large Windlass is, on disk and in memory. Memory is that of the processes in the light lab with a real
//! etcd and API server, once 1,000 Services have an address each, all of them announced by one agent.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;
use windlass_e2e::{Lab, Memory, Writes, image_archive, memory_mb, windlass_binary, write_rows};

const SERVICES: usize = 1000;
const NODE: &str = "n1";
/// Addresses for all of them, on the node's `eth0`.
const POOL: &str = "198.19.0.0/20";
const SERVICE_RANGE: &str = "198.18.0.0/16";

/// One figure, in millions of bytes.
#[derive(Debug, Serialize)]
struct Row {
    measure: &'static str,
    value: f64,
}

impl Row {
    /// Rounded to what a measurement can tell.
    fn new(measure: &'static str, value: f64) -> Self {
        Self { measure, value: (value * 10.0).round() / 10.0 }
    }
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    println!("bench: {SERVICES} Services");
    let lab = Lab::builder().nodes(1).light().without_proxy().service_range(SERVICE_RANGE).interactive();
    let mut rows = Lab::run("bench-footprint", lab, async |lab| in_memory(lab).await)?;
    rows.push(Row::new("binary_mb", on_disk(&windlass_binary()?)?));
    rows.push(Row::new("image_mb", on_disk(&image_archive())?));
    let file = write_rows("footprint", &rows)?;
    println!();
    for Row { measure, value } in &rows {
        println!("  {measure:20} {value:6.1}");
    }
    println!("{}", file.display());
    Ok(())
}

async fn in_memory(lab: &Lab) -> anyhow::Result<Vec<Row>> {
    lab.deploy_windlass(&[NODE]).await?;
    // The pool's addresses are in no subnet of the node.
    lab.announcement("footprint", json!({"interfaces": ["eth0"]})).await?;
    lab.pool("footprint", &[POOL]).await?;
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
