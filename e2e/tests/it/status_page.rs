//! The status page in a real browser, of a controller in a real cluster with a thousand addresses.

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario, workspace};

use crate::{browser, inspect::ask, setup::LIMIT};

const SERVICES: usize = 1000;
/// Rows that the page shows before it is asked for all.
const ROWS: usize = 200;
const PORT: u16 = 10258;
/// Of the browser. The certificate is one of the controller's own making.
const FLAGS: [&str; 2] = ["--ignore-certificate-errors", "--virtual-time-budget=3000"];

/// The page, seen with this token.
fn url(token: &str) -> String {
    format!("https://browser:{token}@127.0.0.1:{PORT}/status")
}

/// The page as the browser has made it, without the script.
async fn document(lab: &Lab, token: &str) -> anyhow::Result<String> {
    let page = browser::browse(lab, &url(token), &[&FLAGS[..], &["--dump-dom"]].concat()).await?;
    Ok(page.split("<script").next().unwrap_or_default().to_owned())
}

/// Width and height of a PNG (W3C PNG §11.2.1).
fn size(png: &[u8]) -> anyhow::Result<[u32; 2]> {
    ensure!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "no PNG");
    let at = |at: usize| -> anyhow::Result<u32> {
        Ok(u32::from_be_bytes(png.get(at..at + 4).context("too short")?.try_into()?))
    };
    Ok([at(16)?, at(20)?])
}

/// A picture of the page, `target/status-page/<name>.png`.
async fn picture(lab: &Lab, token: &str, name: &str, flags: &[&str]) -> anyhow::Result<Vec<u8>> {
    let file = format!("status-page/{name}.png");
    browser::picture(lab, &url(token), &file, &[&FLAGS[..], flags].concat()).await
}

// shows: threats T-21
#[test]
fn a_browser_shows_a_thousand_addresses_in_light_and_dark_and_on_a_phone() -> anyhow::Result<()> {
    let builder = Lab::builder().nodes(3).light().without_proxy().service_range("198.18.0.0/16");
    scenario("status-page", builder, async |lab| {
        lab.install_manifests().await?;
        let flags = vec!["--status-page".to_owned()];
        lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
        for node in ["n1", "n2", "n3"] {
            lab.start_agent(node)?;
        }
        lab.announcement("all", json!({"interfaces": ["eth0"]})).await?;
        lab.pool("default", &["198.19.0.0/20"]).await?;
        lab.unused_services("web", SERVICES).await?;
        // What it is to show of moves: those of a drain.
        let drain = ask(lab, "drain n2").await?;
        ensure!(drain.code == 0, "{}", drain.text);

        let component = workspace().join("manifests/components/status-page/rbac.yaml");
        lab.kubectl(&["apply", "-f", &component.display().to_string()]).await?;
        let token = lab.kubectl(&["-n", "windlass-system", "create", "token", "windlass-status"]).await?;
        let token = token.trim();
        let page = await_that("the page shows the cluster", LIMIT, async || {
            let page = document(lab, token).await?;
            ensure!(page.contains("1000 of 1000 announced"), "{page}");
            Ok(Some(page))
        })
        .await?;
        for words in [
            "1000 of 1000 served",
            "web-0000",
            "n1",
            "show all 1000",
            "as of 20",
            "moves of each five minutes",
        ] {
            ensure!(page.contains(words), "{words:?} is not in {page}");
        }
        let rows = page.matches("198.19.").count();
        ensure!(rows == ROWS, "{rows} addresses are shown at first, not {ROWS}");

        let wide = ["--window-size=1100,900"];
        let light = picture(lab, token, "light", &wide).await?;
        let dark = picture(lab, token, "dark", &[wide[0], "--blink-settings=preferredColorScheme=0"]).await?;
        let phone = picture(lab, token, "phone", &["--window-size=360,800"]).await?;
        ensure!(size(&light)? == [1100, 900] && size(&dark)? == [1100, 900], "light and dark");
        ensure!(size(&phone)? == [360, 800], "phone");
        ensure!(light != dark, "dark is as light");

        // Who may not look is told so, and given nothing.
        lab.kubectl(&["create", "serviceaccount", "stranger"]).await?;
        let stranger = lab.kubectl(&["create", "token", "stranger"]).await?;
        let refused = document(lab, stranger.trim()).await?;
        ensure!(refused.contains("may not get /status"), "{refused}");
        ensure!(!refused.contains("web-0000"), "{refused}");
        Ok(())
    })
}
