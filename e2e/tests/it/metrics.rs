//! docs/metrics.md and the dashboard against what the processes show.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_e2e::{Lab, SERVICE_PORT, await_that, scenario, workspace};

use crate::alerts::{promtool, queries_of_the_dashboard};

const LIMIT: Duration = Duration::from_mins(1);
/// Shown only once there is something to show, which there is not here.
const RARE: [&str; 4] = [
    "rest_client_rate_limiter_duration_seconds",
    "windlass_node_report_doubts",
    "windlass_replication_refused_total",
    "windlass_vrrp_rejected_total",
];

#[test]
fn every_metric_that_is_shown_is_in_the_table_and_every_one_of_the_table_is_shown() -> anyhow::Result<()> {
    scenario("metrics-table", Lab::builder().nodes(2).client("c1").light(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("p", &["192.0.2.200-192.0.2.210"]).await?;
        lab.backend("web", &["n1"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        lab.first_answer("c1", vip, SERVICE_PORT, LIMIT).await?;
        compare("Controller", async || lab.ask_controller(10258, "/metrics").await).await?;
        compare("Agent", async || lab.agent_metrics("n1").await).await?;
        let pages = [
            lab.ask_controller(10258, "/metrics").await?,
            lab.agent_metrics("n1").await?,
            lab.agent_metrics("n2").await?,
        ];
        dashboard_shows(&pages)
    })
}

/// Each query of the dashboard has an answer from these pages of metrics, unless it is about what is rare.
fn dashboard_shows(pages: &[String]) -> anyhow::Result<()> {
    let series = pages.iter().enumerate().flat_map(|(number, page)| {
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(move |line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let value: f64 = value.parse().ok()?;
            let comma = if labels == "}" { "" } else { "," };
            let series = format!("{name}{{job=\"windlass\",instance=\"{number}\"{comma}{labels}");
            Some(json!({"series": series, "values": format!("{value}x20")}))
        })
    });
    let series: Vec<Value> = series.collect();
    let queries = queries_of_the_dashboard()?.into_iter();
    let common = queries.filter(|query| !RARE.iter().any(|rare| query.contains(rare)));
    let asked: Vec<Value> = common
        .map(|query| {
            let one = json!([{"labels": "{}", "value": 1}]);
            json!({"expr": format!("count({query}) > bool 0"), "eval_time": "5m", "exp_samples": one})
        })
        .collect();
    ensure!(asked.len() > 30, "{} queries are asked", asked.len());
    let tests = json!({"tests": [{"interval": "15s", "input_series": series, "promql_expr_test": asked}]});
    promtool("dashboard-data", &[("tests.yaml", tests.to_string())], &[&["test", "rules", "tests.yaml"]])
}

async fn compare(role: &str, scrape: impl AsyncFn() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let labels = table(role)?;
    let table: BTreeSet<String> = labels.keys().cloned().collect();
    await_that(&format!("the {role} shows the metrics of the table"), LIMIT, async || {
        let shown = shown(&scrape().await?);
        let missing: Vec<_> =
            table.difference(&shown).filter(|name| !RARE.contains(&name.as_str())).collect();
        ensure!(missing.is_empty(), "not shown: {missing:?}");
        Ok(Some(()))
    })
    .await?;
    let text = scrape().await?;
    let untold: Vec<_> = shown(&text).difference(&table).cloned().collect();
    ensure!(untold.is_empty(), "docs/metrics.md does not have these metrics of the {role}: {untold:?}");
    for (name, shown) in shown_labels(&text) {
        let told = labels.get(&name).with_context(|| format!("{name} is shown without its type"))?;
        ensure!(*told == shown, "docs/metrics.md gives {name} the labels {told:?}; it has {shown:?}");
    }
    Ok(())
}

/// The names that the documentation gives a role, each with its labels: the first two columns of its table and of the table of both.
fn table(role: &str) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let text =
        std::fs::read_to_string(workspace().join("docs/metrics.md")).context("reading docs/metrics.md")?;
    let mut heading = "";
    let mut names = BTreeMap::new();
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let cells: Vec<&str> = line.split('|').collect();
        if !line.starts_with("| `") || !(heading == role || heading == "Both") {
            continue;
        }
        let words = |cell: &str| {
            let words = cell.split(['`', ',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
            words.collect::<BTreeSet<_>>()
        };
        names.extend(words(cells[1]).into_iter().map(|name| (name, words(cells[2]))));
    }
    ensure!(names.len() > 5, "docs/metrics.md has no tables {role:?} and \"Both\"");
    Ok(names)
}

/// The names of what is shown; a histogram has one.
fn shown(text: &str) -> BTreeSet<String> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    kinds.map(|(name, _)| name.to_owned()).collect()
}

/// The labels of what is shown, but for a histogram's bounds.
fn shown_labels(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let histograms: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram").map(str::to_owned))
        .collect();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let name = of_histogram.filter(|name| histograms.contains(*name)).unwrap_or(name);
        // (Names are what ends with `="` outside of values.)
        let named = rest.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
        let named =
            named.map(|part| part.trim_start_matches(['{', ',']).to_owned()).filter(|label| label != "le");
        labels.entry(name.to_owned()).or_default().extend(named);
    }
    labels
}
