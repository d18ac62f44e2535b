//! A real browser in a lab.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use windlass_e2e::{Lab, workspace};

/// Opens a page in Chromium on host `cp`. With `--virtual-time-budget` among the flags the page has had its data when the browser looks.
pub(crate) async fn browse(lab: &Lab, url: &str, flags: &[&str]) -> anyhow::Result<String> {
    let program = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu"];
    let profile = "--user-data-dir=/run/lab/browser/profile";
    lab.exec("cp", &[&program[..], &[profile], flags, &[url]].concat()).await
}

/// A picture of a page, `target/<file>`.
pub(crate) async fn picture(lab: &Lab, url: &str, file: &str, flags: &[&str]) -> anyhow::Result<Vec<u8>> {
    let file: PathBuf = workspace().join("target").join(file);
    fs::create_dir_all(file.parent().context("a picture is in a folder")?)?;
    let screenshot = format!("--screenshot={}", file.display());
    browse(lab, url, &[&[&*screenshot], flags].concat()).await?;
    fs::read(&file).with_context(|| file.display().to_string())
}
