//! The dashboard for Grafana, drawn of what a real Prometheus has that scrapes a cluster whose node is drained and whose agent dies. Grafana
//! itself is not here: `draw.html` draws the panels of the same file, with the same queries, in a browser.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_api::ANNOTATION_POOL;
use windlass_e2e::{
    ControllerOptions, Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario, workspace,
};

use crate::{alerts::rules, browser, inspect::ask, setup::LIMIT};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const PROMETHEUS: &str = "http://127.0.0.1:9090";
/// Seconds that each state of the cluster lasts at least, as Prometheus has it, so that the picture shows it.
const EACH: u32 = 15;
/// Panels of what is rare, which nothing here makes.
const MAY_BE_EMPTY: [&str; 1] = ["Doubted reports of nodes"];
/// Of the browser.
const FLAGS: [&str; 2] = ["--virtual-time-budget=10000", "--window-size=1400,2480"];

#[test]
fn every_panel_of_the_dashboard_has_data_and_no_alert_fires_while_nodes_come_and_go() -> anyhow::Result<()> {
    scenario("dashboard", Lab::builder().nodes(3).client("c1").light(), async |lab| {
        lab.install_manifests().await?;
        start_prometheus(lab).await?;
        let flags = vec!["--bind-address=0.0.0.0".to_owned()];
        lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
        for node in NODES {
            lab.start_agent_with(node, &["--bind-address=0.0.0.0"])?;
        }
        await_series(lab, "sum(up) == 4").await?;
        let begin = now(lab).await?;

        lab.announcement("all", json!({"connections": "Replicate"})).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.215", "2001:db8::200-2001:db8::20f"]).await?;
        lab.pool("few", &["192.0.2.220-192.0.2.222"]).await?;
        lab.unused_services("web", 12).await?;
        lab.backend("answering", &NODES).await?;
        let from_few = [(ANNOTATION_POOL.to_owned(), "few".to_owned())].into();
        lab.load_balancer("answering", |service| service.metadata.annotations = Some(from_few)).await?;
        let vip = lab.ingress("answering", LIMIT).await?;
        lab.first_answer("c1", vip, SERVICE_PORT, LIMIT).await?;
        let clients = LoadOptions { connections: 20, requests_per_second: 20 };
        let clients = lab.load("c1", vip, SERVICE_PORT, clients).await?;
        let announced = "sum(windlass_vrrp_addresses and windlass_vrrp_state == 2)";
        lasts(lab, &format!("{announced} == 13")).await?;

        ensure!(ask(lab, "drain n2").await?.code == 0, "n2 is not drained");
        lasts(lab, &format!("{announced} == 13 unless on () {} > 0", of(lab, "n2")?)).await?;
        ensure!(ask(lab, "undrain n2").await?.code == 0, "n2 is not back");
        lasts(lab, &format!("{} > 0", of(lab, "n2")?)).await?;

        lab.stop_agent("n1", Signal::SIGKILL).await?;
        lasts(lab, &format!("{announced} == 13 and on () (sum(up) == 3)")).await?;
        lab.start_agent_with("n1", &["--bind-address=0.0.0.0"])?;
        lasts(lab, &format!("{announced} == 13 and on () ({} > 0)", of(lab, "n1")?)).await?;

        clients.stop()?;
        // No node was out of order for long.
        let fired =
            instant(lab, "count by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[10m]))")
                .await?;
        let fired: Vec<&str> = fired.iter().filter_map(|one| one["metric"]["alertname"].as_str()).collect();
        // Whoever has no processor in time may well be taken for dead.
        let is_slow = fired.contains(&"WindlassEngineLate");
        ensure!(fired.is_empty() || is_slow, "alerts that nobody needs: {fired:?}");

        let drawn = draw(lab, begin).await?;
        let mut empty: Vec<&str> =
            drawn.iter().filter(|(_, series)| **series == 0).map(|(title, _)| title.as_str()).collect();
        empty.retain(|title| !MAY_BE_EMPTY.contains(title));
        ensure!(empty.is_empty(), "without data: {empty:?}");
        let routers = drawn.get("State of each virtual router at each node");
        ensure!(routers.is_some_and(|series| *series >= 6), "virtual routers by node: {routers:?}");
        Ok(())
    })
}

/// Where Prometheus scrapes the agent of a node, which it calls its instance.
fn instance(lab: &Lab, node: &str) -> anyhow::Result<String> {
    Ok(format!("{}:9859", lab.node(node)?.address()))
}

/// How many addresses a node announces.
fn of(lab: &Lab, node: &str) -> anyhow::Result<String> {
    let instance = instance(lab, node)?;
    Ok(format!("sum(windlass_vrrp_addresses{{instance=\"{instance}\"}} and windlass_vrrp_state == 2)"))
}

/// Prometheus as an account that has the role of the component `service-monitors`, and nothing else.
async fn start_prometheus(lab: &Lab) -> anyhow::Result<()> {
    let monitors = workspace().join("manifests/components/service-monitors/monitors.yaml");
    let monitors = fs::read_to_string(monitors)?;
    let role = monitors.split("---\n").find(|object| object.contains("kind: ClusterRole\n"));
    lab.apply(role.context("the component has no ClusterRole")?).await?;
    let account = "windlass-system:prometheus";
    lab.kubectl(&["-n", "windlass-system", "create", "serviceaccount", "prometheus"]).await?;
    let binding = ["create", "clusterrolebinding", "prometheus", "--clusterrole=windlass-metrics"];
    lab.kubectl(&[&binding[..], &[&*format!("--serviceaccount={account}")]].concat()).await?;
    let token = lab.kubectl(&["-n", "windlass-system", "create", "token", "prometheus"]).await?;

    let folder = lab.folder().join("prometheus");
    let pages = folder.join("pages");
    fs::create_dir_all(&pages)?;
    fs::write(folder.join("token"), token.trim())?;
    fs::write(folder.join("rules.yml"), rules()?)?;
    fs::write(pages.join("draw.html"), include_str!("dashboard/draw.html"))?;
    let dashboard = workspace().join("manifests/components/grafana-dashboard/windlass.json");
    fs::copy(dashboard, pages.join("windlass.json"))?;
    let mut targets =
        NODES.map(|node| instance(lab, node)).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    targets.push("192.0.2.10:10258".to_owned());
    let config = json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [folder.join("rules.yml")],
        "scrape_configs": [{
            "job_name": "windlass",
            "scheme": "https",
            "authorization": {"credentials_file": folder.join("token")},
            "tls_config": {"insecure_skip_verify": true},
            "static_configs": [{"targets": targets}],
        }],
    });
    fs::write(folder.join("prometheus.yml"), config.to_string())?;
    let flags = [
        format!("--config.file={}", folder.join("prometheus.yml").display()),
        format!("--web.user-assets={}", pages.display()),
        "--web.listen-address=127.0.0.1:9090".to_owned(),
        "--storage.tsdb.path=/run/lab/prometheus".to_owned(),
    ];
    let command: Vec<&str> = ["prometheus"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    lab.start_process("cp", "prometheus", &command)
}

/// What Prometheus answers to a query now.
async fn instant(lab: &Lab, query: &str) -> anyhow::Result<Vec<Value>> {
    let url = format!("{PROMETHEUS}/api/v1/query");
    let query = format!("query={query}");
    let words =
        ["curl", "-sS", "--noproxy", "*", "--max-time", "5", "--get", "--data-urlencode", &query, &url];
    let said = lab.exec("cp", &words).await?;
    let answer: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    ensure!(answer["status"] == "success", "{query}: {answer}");
    Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
}

async fn now(lab: &Lab) -> anyhow::Result<u64> {
    let answer = instant(lab, "floor(vector(time()))").await?;
    let value = answer.first().and_then(|one| one["value"][1].as_str()).context("Prometheus has no time")?;
    Ok(value.parse()?)
}

/// Waits until the query has an answer.
async fn await_series(lab: &Lab, query: &str) -> anyhow::Result<()> {
    await_that(&format!("Prometheus has {query}"), LIMIT, async || {
        Ok((!instant(lab, query).await?.is_empty()).then_some(()))
    })
    .await
}

/// Waits until the query had an answer for a while.
async fn lasts(lab: &Lab, query: &str) -> anyhow::Result<()> {
    await_series(lab, &format!("count_over_time(({query})[{EACH}s:1s]) >= {EACH}")).await
}

/// Draws what happened since then: `target/dashboard/dashboard.png`. The panels, each with how many series it shows.
async fn draw(lab: &Lab, begin: u64) -> anyhow::Result<BTreeMap<String, u64>> {
    let url = format!("{PROMETHEUS}/user/draw.html?from={begin}&to={}&step=1&rate=5s", now(lab).await?);
    let page = browser::browse(lab, &url, &[&FLAGS[..], &["--dump-dom"]].concat()).await?;
    ensure!(page.contains("data-drawn=\"whole\""), "it was not drawn: {page}");
    browser::picture(lab, &url, "dashboard/dashboard.png", &FLAGS).await?;
    let panels = page.split("<section ").skip(1).filter_map(|panel| {
        let title = panel.split_once("<h2>")?.1.split_once("</h2>")?.0;
        let series = panel.split_once("data-series=\"")?.1.split_once('"')?.0;
        Some((title.to_owned(), series.parse().ok()?))
    });
    Ok(panels.collect())
}
