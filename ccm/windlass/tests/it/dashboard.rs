//! The dashboard for Grafana names metrics and labels of `docs/metrics.md`, which the lab holds against what the processes show.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../manifests/components/grafana-dashboard/windlass.json");
/// What Prometheus adds to each series.
const TARGET: [&str; 2] = ["job", "instance"];
/// Words of PromQL that are no function, as those are followed by a parenthesis at once.
const WORDS: [&str; 4] = ["and", "or", "unless", "bool"];
/// Those that labels follow.
const GROUPING: [&str; 5] = ["by", "on", "ignoring", "without", "group_left"];

/// The labels of each metric of the page.
fn metrics() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut metrics = BTreeMap::new();
    for row in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1).map(|cell| cell.split('`').skip(1).step_by(2));
        let (names, labels) = (cells.next().expect("names"), cells.next().expect("labels"));
        let labels: BTreeSet<_> = labels.chain(TARGET).collect();
        let histogram = row.contains("histogram");
        for name in names {
            let with_bound: BTreeSet<_> = labels.iter().copied().chain(histogram.then_some("le")).collect();
            assert!(metrics.insert(name, with_bound).is_none(), "{name} is twice on the page");
        }
    }
    metrics
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_word(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// What an expression names that is no metric, or no label of its metrics.
fn unknown(expression: &str) -> Vec<String> {
    let metrics = metrics();
    let mut wrong = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut lists = Vec::new();
    let mut rest = expression;
    let mut last = "";
    while let Some(at) = rest.find(|c: char| c.is_ascii_lowercase() || "{([\"".contains(c)) {
        rest = &rest[at..];
        let close = |end: char| rest.find(end).expect("it is closed");
        match rest.as_bytes()[0] {
            b'{' => {
                let end = close('}');
                let labels = metrics.get(last.trim_end_matches("_bucket"));
                // What is compared, without the values.
                for label in rest[..end].split('"').step_by(2).flat_map(words) {
                    if !labels.is_some_and(|labels| labels.contains(label)) {
                        wrong.push(format!("{last} has no label {label}"));
                    }
                }
                rest = &rest[end..];
            }
            b'[' => rest = &rest[close(']')..],
            b'"' => rest = &rest[1 + rest[1..].find('"').expect("it is closed")..][1..],
            b'(' => {
                if GROUPING.contains(&last) {
                    let end = close(')');
                    lists.extend(words(&rest[..end]));
                    (rest, last) = (&rest[end..], "");
                } else {
                    rest = &rest[1..];
                }
            }
            _ => {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let word = &rest[..end];
                rest = &rest[end..];
                let called = rest.trim_start().starts_with('(')
                    || GROUPING.iter().any(|one| {
                        rest.trim_start()
                            .strip_prefix(one)
                            .is_some_and(|rest| rest.trim_start().starts_with('('))
                    });
                if let Some(labels) = metrics.get(word.trim_end_matches("_bucket")) {
                    known.extend(labels);
                } else if !called && !WORDS.contains(&word) {
                    wrong.push(format!("{word} is no metric"));
                }
                last = word;
            }
        }
    }
    wrong.extend(
        lists
            .into_iter()
            .filter(|label| !known.contains(label))
            .map(|label| format!("no metric has {label}")),
    );
    wrong
}

/// Expressions of the dashboard, each with its legend.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let word = |target: &Value, field: &str| target[field].as_str().expect("a word").to_owned();
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| (word(target, "expr"), word(target, "legendFormat"))).collect()
}

#[test]
fn every_metric_and_label_of_the_dashboard_is_on_the_page() {
    let queries = queries();
    assert!(queries.len() > 30, "{} queries", queries.len());
    for (expression, legend) in queries {
        let wrong = unknown(&expression);
        assert!(wrong.is_empty(), "{expression}: {wrong:?}");
        for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
            let kept = !expression.contains("by (")
                || expression
                    .split("by (")
                    .skip(1)
                    .all(|list| words(list.split(')').next().unwrap_or_default()).any(|one| one == label));
            assert!(
                kept && words(&expression).any(|word| word == label) || TARGET.contains(&label),
                "{expression} keeps no {label}"
            );
        }
    }
}

#[test]
fn what_the_page_does_not_have_is_noticed() {
    for (expression, wrong) in [
        ("sum by (vrid, le) (rate(windlass_engine_lateness_seconds_bucket[5m]))", "no metric has vrid"),
        ("windlass_vrrp_stat == bool 2", "windlass_vrrp_stat is no metric"),
        (
            "max(windlass_pool_addresses{kind=\"le\", pool=\"a\"})",
            "windlass_pool_addresses has no label kind",
        ),
        ("windlass_vrrp_addresses and on (instance, pool) windlass_vrrp_state == 2", "no metric has pool"),
    ] {
        assert_eq!(unknown(expression), [wrong], "{expression}");
    }
}

#[test]
fn panels_lie_beside_each_other_and_say_what_they_show() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{title}: another panel has its id");
        assert!(
            panel["type"] == "row" || panel["description"].as_str().is_some_and(|text| text.len() > 10),
            "{title}"
        );
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"));
        assert!(x + w <= 24, "{title} is beyond the edge");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title} lies on another panel");
        }
    }
}
