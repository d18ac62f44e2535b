//! The alerts and the dashboard, as Prometheus reads them: `manifests/components/prometheus-rules` and `grafana-dashboard`.

use std::{fs, process::Command};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_e2e::{target, workspace};

/// Runs promtool with each of these lists of arguments, in a folder of these files.
pub(crate) fn promtool(name: &str, files: &[(&str, String)], runs: &[&[&str]]) -> anyhow::Result<()> {
    let folder = target().join(format!("lab-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let result = (|| {
        for (file, text) in files {
            fs::write(folder.join(file), text)?;
        }
        for arguments in runs {
            let output = Command::new("promtool").args(*arguments).current_dir(&folder).output();
            let output = output.context("starting promtool (package prometheus): run e2e/tools/packages")?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            ensure!(output.status.success(), "promtool {}: {said}", arguments.join(" "));
        }
        Ok(())
    })();
    let _ = fs::remove_dir_all(&folder);
    result
}

/// The alerts, as Prometheus itself reads them.
pub(crate) fn rules() -> anyhow::Result<String> {
    let source = workspace().join("manifests/components/prometheus-rules/rules.yaml");
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(source)?)?;
    // JSON is YAML.
    Ok(rules["spec"].to_string())
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_for_what_they_name() -> anyhow::Result<()> {
    let tests = workspace().join("manifests/components/prometheus-rules/tests.yaml");
    let files = [("rules.yaml", rules()?), ("tests.yaml", fs::read_to_string(tests)?)];
    promtool("alerts", &files, &[&["check", "rules", "rules.yaml"], &["test", "rules", "tests.yaml"]])
}

/// The queries of the dashboard, with what Grafana puts in the place of its variables.
pub(crate) fn queries_of_the_dashboard() -> anyhow::Result<Vec<String>> {
    let source = workspace().join("manifests/components/grafana-dashboard/windlass.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(source)?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.filter_map(|target| target["expr"].as_str());
    let queries: Vec<String> =
        queries.map(|query| query.replace("$__rate_interval", "1m").replace("$vrid", ".*")).collect();
    ensure!(queries.len() > 30, "{} queries", queries.len());
    Ok(queries)
}

#[test]
fn prometheus_accepts_the_queries_of_the_dashboard() -> anyhow::Result<()> {
    let queries = queries_of_the_dashboard()?.into_iter().enumerate();
    let rules: Vec<Value> =
        queries.map(|(number, query)| json!({"record": format!("query{number}"), "expr": query})).collect();
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    promtool("dashboard", &[("rules.yaml", rules.to_string())], &[&["check", "rules", "rules.yaml"]])
}
