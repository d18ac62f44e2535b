//! Files of this repository, and tables of its pages: for the tests, and for the example that writes `docs/evidence`.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file, by its path from the root.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    text.expect("a file")
}

/// Returns the files below a folder of the root that have this extension, sorted, without those that cargo makes.
pub(crate) fn files(folder: impl AsRef<Path>, extension: &str) -> Vec<PathBuf> {
    let mut folders = vec![root().join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|one| one == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Returns the cells of the rows of each table whose first heading is `heading`.
pub(crate) fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let mut inside = false;
    let mut rows = Vec::new();
    for line in page.lines() {
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", first, .., ""] = row[..] else {
            inside = false;
            continue;
        };
        if first == heading {
            inside = true;
        } else if inside && !first.starts_with("---") {
            rows.push(row[1..row.len() - 1].to_vec());
        }
    }
    rows
}
