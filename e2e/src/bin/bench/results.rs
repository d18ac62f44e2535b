//! Results of the benchmarks: a table on the terminal and `target/bench/NAME.json`.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use serde::Serialize;
use windlass_e2e::write_rows;

/// Writes rows to `target/bench/NAME.json` and prints them below a title, with the path.
pub(crate) fn publish(name: &str, title: &str, rows: &[impl Serialize + Display]) -> anyhow::Result<()> {
    let file = write_rows(name, &rows)?;
    println!("\n{title}");
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
}

/// Errors with their numbers, as the end of a line.
pub(crate) struct Errors<'a>(pub(crate) &'a BTreeMap<String, u64>);

impl Display for Errors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(error, count)| write!(f, "; {count} times: {error}"))
    }
}
