//! Results of the benchmarks: a table on the terminal and `target/bench/NAME.json`.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    path::Path,
};

use serde::Serialize;
use serde_json::Value;
use windlass_e2e::{write_rows, write_rows_beside};

/// Writes rows to `target/bench/NAME.json` and prints them below a title, with the path.
pub(crate) fn publish(name: &str, title: &str, rows: &[impl Serialize + Display]) -> anyhow::Result<()> {
    print(&write_rows(name, &rows)?, title, rows);
    Ok(())
}

/// The same, beside the rows of another benchmark, which are not `ours`.
pub(crate) fn publish_beside(
    name: &str,
    title: &str,
    rows: &[impl Serialize + Display],
    is_ours: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    print(&write_rows_beside(name, rows, is_ours)?, title, rows);
    Ok(())
}

fn print(file: &Path, title: &str, rows: &[impl Display]) {
    println!("\n{title}");
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
}

/// Errors with their numbers, as the end of a line.
pub(crate) struct Errors<'a>(pub(crate) &'a BTreeMap<String, u64>);

impl Display for Errors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(error, count)| write!(f, "; {count} times: {error}"))
    }
}
