//! Each rule of `docs/dev` is shown by a test that names it, and `docs/evidence` lists these tests. The pages of fields, flags and metrics
//! are what the code generates.

#[path = "../../examples/evidence/render.rs"]
mod render;
#[path = "../../examples/evidence/tables.rs"]
mod tables;

use std::collections::BTreeSet;
use std::fs;

use render::{Evidence, Mark, Page, Rule};

use crate::repository;

/// Last scenario of `docs/dev/allocation.md`.
const LAST_SCENARIO: u32 = 122;

#[test]
fn every_rule_is_shown_by_a_test_and_every_mark_names_a_rule() {
    assert_eq!(Evidence::read().faults(), Vec::<String>::new());
}

#[test]
fn the_pages_of_evidence_are_what_the_marks_generate() {
    let files = Evidence::read().files();
    for (name, text) in &files {
        let kept = fs::read_to_string(render::folder().join(name)).unwrap_or_default();
        assert!(kept == *text, "docs/evidence/{name} is stale: run `make evidence` and commit it");
    }
    let kept = fs::read_dir(render::folder()).unwrap();
    let kept: BTreeSet<String> =
        kept.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let generated: BTreeSet<String> = files.into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, generated, "docs/evidence is stale: run `make evidence` and commit it");
}

#[test]
fn the_pages_of_fields_flags_and_metrics_are_what_the_code_generates() {
    for (name, text) in tables::pages() {
        let kept = repository::read(format!("docs/{name}"));
        assert!(kept == text, "docs/{name} is stale: run `make evidence` and commit it");
    }
}

#[test]
fn allocation_has_every_scenario() {
    let evidence = Evidence::read();
    let page = evidence.pages.iter().find(|page| page.name == "allocation").unwrap();
    let ids: BTreeSet<&str> = page.ids().collect();
    let missing = (1..=LAST_SCENARIO).map(|number| number.to_string()).filter(|id| !ids.contains(&**id));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn each_numbered_test_of_the_allocator_shows_its_scenario() {
    let marks = Evidence::read().marks;
    let folder = render::folder().join("../../ipam/src/allocator/tests");
    for entry in fs::read_dir(folder).unwrap() {
        let Ok(text) = fs::read_to_string(entry.unwrap().path()) else { continue };
        for name in text.lines().filter_map(|line| line.strip_prefix("fn ")?.split('(').next()) {
            let number = name.strip_prefix('s').and_then(|rest| rest.split('_').next());
            let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
            let shows = |mark: &Mark| mark.test.as_deref() == Some(name) && mark.id == number.to_string();
            let is_shown = marks.iter().any(|mark| mark.page == "allocation" && shows(mark));
            assert!(is_shown, "{name} has no mark for scenario {number}");
        }
    }
}

fn rule(cell: &str, ids: &[&str], untested: Option<&'static str>) -> Rule {
    Rule { cell: cell.to_owned(), ids: ids.iter().map(|id| (*id).to_owned()).collect(), untested }
}

fn mark(page: &str, id: &str, test: Option<&str>) -> Mark {
    Mark { page: page.into(), id: id.into(), test: test.map(Into::into), file: "vrrp/src/a.rs".into() }
}

#[test]
fn rules_are_read_from_tables_of_ids() {
    let table = "| id | rule |\n|---|---|\n| R1, S-09 to S-11 | one |\n| 7 | none: by review |\n";
    let page = format!("{table}\n| rule | x |\n|---|---|\n| R2 | y |\n");
    let expected = [
        rule("R1, S-09 to S-11", &["R1", "S-09", "S-10", "S-11"], None),
        rule("7", &["7"], Some("by review")),
    ];
    assert_eq!(render::rules(&page), expected);
    assert_eq!(render::ids("a to b, R1 to S3"), ["a to b", "R1 to S3"]);
}

#[test]
fn a_mark_is_of_the_test_that_follows() {
    let above = "// shows: p R1, 2 to 3; q S-01\n/// The fn that …";
    let marked = |attribute: &str| format!("{above}\n{attribute}\nasync fn t(a: u8) {{\n");
    for attribute in ["#[test]", "#[tokio::test(start_paused = true)]", "#[cfg(unix)]\n#[rstest]"] {
        let expected = [("p", "R1"), ("p", "2"), ("p", "3"), ("q", "S-01")];
        let expected = expected.map(|(page, id)| mark(page, id, Some("t")));
        assert_eq!(render::marks("vrrp/src/a.rs", &marked(attribute)), expected, "{attribute}");
    }
    let helper = render::marks("vrrp/src/a.rs", &marked("#[cfg(test)]"));
    assert!(helper.iter().all(|mark| mark.test.is_none()), "{helper:?}");
}

#[test]
fn what_is_missing_or_wrong_is_noticed() {
    let (r1, r2) = (|| rule("R1", &["R1"], None), rule("R2", &["R2"], Some("by review")));
    let pages = vec![Page { name: "p".into(), rules: vec![r1(), r2, r1()] }];
    let marks = vec![mark("p", "R2", Some("t")), mark("p", "R3", Some("t")), mark("q", "R1", None)];
    let faults = Evidence { pages, marks }.faults();
    let expected = [
        "a mark names p R3",
        "no test follows the mark for q R1",
        "a mark names q R1",
        "no test shows R1",
        "says \"by review\" of R2",
        "has the id R1 twice",
        "no test shows R1",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(expected), "{fault}: {expected}");
    }
}

#[test]
fn a_metric_is_read_from_the_call_that_registers_it() {
    let source = "const LABELS: &[&str] = &[\"name\"];\ngauges(\n    \"windlass_a\",\n    \"Of \\\n     two | lines\",\n    [\"b\", \"c\"],\n)
        register_int_counter_with_registry!(\"windlass_d_total\", \"D\", registry)?;
        register_histogram_vec_with_registry!(\"windlass_e\", \"E\", LABELS, buckets)?; call(\"windlass_f\")";
    let expected = [
        ["`windlass_a`", "`b`, `c`", "gauge", "Of two | lines"],
        ["`windlass_d_total`", "", "counter", "D"],
        ["`windlass_e`", "`name`", "histogram", "E"],
    ];
    assert_eq!(tables::metrics_of(source), expected);
}
