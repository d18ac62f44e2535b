//! The Helm chart and the kustomization: the same objects, from the same files. Nothing runs here but `helm` and `kubectl kustomize`.

mod rendered;
mod values;

use std::{fs, process::Command};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use windlass_e2e::{helm, target, workspace};

use self::rendered::{Objects, chart, component_objects};

/// The chart's folder.
fn folder() -> String {
    workspace().join("manifests/chart").display().to_string()
}

/// Runs Helm, which says on standard error that the chart has symbolic links.
fn run_helm(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(helm()?).args(arguments).output().context("starting helm")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().filter(|line| !line.contains("found symbolic link in path")).collect();
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "helm {}: {}{printed}", arguments.join(" "), said.join("\n"));
    Ok(printed)
}

/// What both name in their own ways, or only one has, taken away.
fn alike(mut objects: Objects) -> Objects {
    // Helm makes the namespace itself; docs/install.md says which label it needs.
    objects.retain(|name, _| !name.starts_with("Namespace/"));
    for object in objects.values_mut() {
        if object["kind"] == "CustomResourceDefinition"
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
        if let Some(containers) = object.pointer_mut("/spec/template/spec/containers") {
            for container in containers.as_array_mut().into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
    }
    objects
}

#[test]
fn the_chart_and_the_kustomization_make_the_same_objects() -> anyhow::Result<()> {
    let rows: &[(&[&str], &[&str])] = &[
        (&[], &[]),
        (&["load-balancer-only"], &["loadBalancerOnly=true"]),
        (&["node-deletion"], &["nodeDeletion=true"]),
        (&["status-page"], &["statusPage.enabled=true"]),
        (
            &["service-monitors", "prometheus-rules"],
            &["metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true"],
        ),
        (&["grafana-dashboard"], &["metrics.grafanaDashboard.enabled=true"]),
        (
            &["load-balancer-only", "service-monitors"],
            &["metrics.serviceMonitor.enabled=true", "loadBalancerOnly=true"],
        ),
    ];
    for (components, settings) in rows {
        let (kustomized, charted) = (alike(component_objects(components)?), alike(chart(settings)?));
        let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        ensure!(
            names(&kustomized) == names(&charted),
            "{components:?} has {:#?}, {settings:?} has {:#?}",
            names(&kustomized),
            names(&charted)
        );
        for (name, object) in &kustomized {
            let other = &charted[name];
            ensure!(
                object == other,
                "{name} of {components:?} is {object:#}, of {settings:?} it is {other:#}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_definitions_of_the_custom_resources_outlive_the_release_and_may_be_left_out() -> anyhow::Result<()> {
    let of_definitions = |objects: Objects| -> Vec<Value> {
        objects.into_values().filter(|one| one["kind"] == "CustomResourceDefinition").collect()
    };
    let definitions = of_definitions(chart(&[])?);
    ensure!(definitions.len() == windlass_api::all_crds().len(), "{} definitions", definitions.len());
    for definition in definitions {
        let kept = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        ensure!(kept == "keep", "{}: {kept}", definition["metadata"]["name"]);
    }
    ensure!(of_definitions(chart(&["crds.install=false"])?).is_empty(), "they are there all the same");
    Ok(())
}

#[test]
fn the_archive_is_the_chart_and_the_same_each_time() -> anyhow::Result<()> {
    let folder = target().join(format!("lab-charts-{}", std::process::id()));
    let result = (|| {
        let mut archives = Vec::new();
        for time in ["first", "second"] {
            let folder = folder.join(time);
            let mut package = Command::new(workspace().join("manifests/chart/package"));
            let output = package.arg(&folder).env("IMAGE", "registry.example/windlass").output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let path = String::from_utf8(output.stdout)?.trim().to_owned();
            let mut sums = Command::new("sha256sum");
            sums.args(["--check", "--strict"]).arg(format!("{path}.sha256"));
            let checked = sums.current_dir(&folder).output()?;
            ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
            archives.push((fs::read(&path)?, path));
        }
        ensure!(archives[0].0 == archives[1].0, "two archives of the same sources differ");
        let path = &archives[0].1;
        let about: Value = serde_saphyr::from_str(&run_helm(&["show", "chart", path])?)?;
        for version in ["version", "appVersion"] {
            ensure!(about[version] == env!("CARGO_PKG_VERSION"), "{version} is {}", about[version]);
        }
        let image: Value = serde_saphyr::from_str(&run_helm(&["show", "values", path])?)?;
        ensure!(image["image"]["repository"] == "registry.example/windlass", "{}", image["image"]);
        let template = ["template", "windlass", path, "--namespace", "windlass-system", "--skip-tests"];
        let packed = rendered::objects(&run_helm(&template)?)?;
        ensure!(
            packed == chart(&["image.repository=registry.example/windlass"])?,
            "the archive makes other objects than the folder"
        );
        Ok(())
    })();
    let _ = fs::remove_dir_all(&folder);
    result
}
