//! Pages of `docs` that are generated as a whole: fields, flags and metrics. Shared by the example that writes them and the test that
//! compares them.

mod fields;
mod flags;
mod metrics;

#[cfg(test)]
pub(crate) use metrics::of_source as metrics_of;

/// Returns the name and the content of each page.
pub(crate) fn pages() -> [(&'static str, String); 3] {
    [("fields.md", fields::page()), ("flags.md", flags::page()), ("metrics.md", metrics::page())]
}

/// Returns a table: `heading` has its columns between bars.
fn table(heading: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = heading.matches('|').count() - 1;
    let rows = rows.into_iter().map(|row| {
        let cells = row.iter().map(|cell| format!(" {} |", cell.trim().replace('|', "\\|")));
        format!("|{}\n", cells.collect::<String>())
    });
    format!("{heading}\n|{}\n{}\n", "---|".repeat(columns), rows.collect::<String>())
}

/// Returns the text in backquotes, or nothing.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
