//! `docs/dev/allocation.md` names tests that are there, and has a row for each scenario; `docs/dev/field-reports.md`,
//! `docs/placement.md` and `docs/security.md` name such tests, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Highest number of a scenario.
const LAST: u32 = 122;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file of the parts that the page names, as one text.
fn sources() -> String {
    let mut folders: Vec<PathBuf> = ["ipam", "ccm", "e2e", "vrrp"].map(|part| root().join(part)).into();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(path).expect("Rust is text");
            }
        }
    }
    text
}

/// What is between backquotes.
fn spans(document: &str) -> impl Iterator<Item = &str> {
    document.split('`').skip(1).step_by(2)
}

/// Tests' names are sentences; metrics' have our prefix.
fn is_test(span: &str) -> bool {
    span.matches('_').count() >= 3 && !span.contains('/') && !span.starts_with("windlass_")
}

/// Tests and files that the document names and that are nowhere.
fn missing(document: &str, sources: &str) -> Vec<String> {
    let gone = |span: &&str| {
        if is_test(span) {
            let name = span.rsplit("::").next().unwrap_or(span);
            !sources.contains(&format!("fn {name}("))
        } else if Path::new(span).extension().is_some_and(|extension| extension == "rs") {
            !root().join(span).exists()
        } else {
            false
        }
    };
    spans(document).filter(gone).map(str::to_owned).collect()
}

/// Numbers of the first cells of the tables: `1, 5`, `31 to 34`.
fn scenarios(document: &str) -> BTreeSet<u32> {
    let cells = document.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let mut numbers = BTreeSet::new();
    for part in cells.flat_map(|cell| cell.split(',')) {
        let ends: Vec<u32> = part.split(" to ").filter_map(|end| end.trim().parse().ok()).collect();
        if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
            numbers.extend(*first..=*last);
        }
    }
    numbers
}

#[test]
fn the_page_names_tests_that_exist_and_has_every_scenario() {
    let document = fs::read_to_string(root().join("docs/dev/allocation.md")).unwrap();
    let sources = sources();
    assert_eq!(missing(&document, &sources), Vec::<String>::new());
    for page in ["docs/dev/field-reports.md", "docs/placement.md", "docs/security.md"] {
        let page = fs::read_to_string(root().join(page)).unwrap();
        assert_eq!(missing(&page, &sources), Vec::<String>::new());
    }
    let expected: BTreeSet<u32> = (1..=LAST).collect();
    assert_eq!(scenarios(&document), expected);
}

#[test]
fn every_numbered_test_of_the_allocator_is_on_the_page() {
    let document = fs::read_to_string(root().join("docs/dev/allocation.md")).unwrap();
    let folder = root().join("ipam/src/allocator/tests");
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = fs::read_to_string(&entry) else { continue };
        let names = text.lines().filter_map(|line| line.strip_prefix("fn s")?.split('(').next());
        for name in names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())) {
            // A scenario with several tests names one at least.
            let number = name.split('_').next().unwrap_or(name);
            assert!(document.contains(&format!("::s{number}_")), "s{name}");
        }
    }
}

#[test]
fn a_name_that_is_gone_is_noticed() {
    let document =
        "`a_test_that_is_gone`, `x::the_page_is_there`, `ipam/src/gone.rs`, `ipam/src/lib.rs`, `autoAssign`";
    let sources = "fn the_page_is_there() {";
    assert_eq!(missing(document, sources), ["a_test_that_is_gone", "ipam/src/gone.rs"]);
}
