//! The alerts, as Prometheus reads them: `manifests/components/prometheus-rules`.

use std::{fs, process::Command};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use windlass_e2e::{target, workspace};

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_for_what_they_name() -> anyhow::Result<()> {
    let source = workspace().join("manifests/components/prometheus-rules");
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(source.join("rules.yaml"))?)?;
    let folder = target().join(format!("lab-alerts-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let result = (|| {
        // JSON is YAML.
        fs::write(folder.join("rules.yaml"), rules["spec"].to_string())?;
        fs::copy(source.join("tests.yaml"), folder.join("tests.yaml"))?;
        for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"]] {
            let output = Command::new("promtool").args(arguments).current_dir(&folder).output();
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
