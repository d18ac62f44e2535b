//! The figures, on the terminal and in `target/bench/ipam.json`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_ipam::Family;

/// One figure.
pub(crate) struct Row {
    pub(crate) operation: &'static str,
    pub(crate) family: Family,
    pub(crate) in_use: u64,
    pub(crate) ns_per_op: f64,
    /// Memory of one address in use.
    pub(crate) bytes_per_address: Option<f64>,
}

impl Row {
    fn ops_per_second(&self) -> f64 {
        1e9 / self.ns_per_op
    }

    fn json(&self) -> Value {
        let family = match self.family {
            Family::V4 => "v4",
            Family::V6 => "v6",
        };
        let mut row = json!({
            "op": self.operation, "family": family, "in_use": self.in_use,
            "ns_per_op": (self.ns_per_op * 10.0).round() / 10.0, "ops_per_second": self.ops_per_second().round(),
        });
        if let Some(bytes) = self.bytes_per_address {
            row["bytes_per_address"] = json!(bytes.round());
        }
        row
    }
}

/// The table.
pub(crate) fn print(rows: &[Row]) {
    println!("\n| operation | family | in use | ns | operations per second |");
    println!("|---|---|---:|---:|---:|");
    for row in rows {
        let (ns, each) = (row.ns_per_op, row.ops_per_second());
        println!("| {} | {} | {} | {ns:.0} | {each:.0} |", row.operation, row.family, row.in_use);
    }
    for row in rows {
        if let Some(bytes) = row.bytes_per_address {
            println!("\n{} addresses in use, {}: {bytes:.0} bytes each", row.in_use, row.family);
        }
    }
}

/// Writes the rows and returns the path.
pub(crate) fn write(rows: &[Row]) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("making {}: {error}", folder.display()));
    let file = folder.canonicalize().unwrap_or(folder).join("ipam.json");
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    let text = serde_json::to_string_pretty(&rows).unwrap() + "\n";
    fs::write(&file, text).unwrap_or_else(|error| panic!("writing {}: {error}", file.display()));
    file
}
