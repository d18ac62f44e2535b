//! What the chart and the kustomization make.

use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_e2e::{kubectl, target, workspace};

use super::{folder, run_helm};

/// Objects by `Kind/namespace/name`.
pub(super) type Objects = BTreeMap<String, Value>;

/// The objects of a stream of YAML documents.
pub(super) fn objects(text: &str) -> anyhow::Result<Objects> {
    let mut objects = Objects::new();
    for document in text.trim_start_matches("---\n").split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(document).with_context(|| document.to_owned())?;
        whole_numbers(&mut object);
        if object.is_null() {
            continue;
        }
        let word = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = [word("/kind"), word("/metadata/namespace"), word("/metadata/name")].join("/");
        ensure!(objects.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    Ok(objects)
}

/// Helm writes the bound `1.0` of a definition as `1`, which is the same number.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole =
                number.as_f64().filter(|number| number.fract() == 0.0).map(|number| format!("{number}"));
            if let Some(whole) = whole.and_then(|text| text.parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// What the chart makes with these values (`name=value`), without what only `helm test` makes.
pub(super) fn chart(settings: &[&str]) -> anyhow::Result<Objects> {
    let folder = folder();
    let mut command = vec!["template", "windlass", &folder, "--namespace", "windlass-system", "--skip-tests"];
    for setting in settings {
        // (As JSON where it is one.)
        let is_json = setting.split_once('=').is_some_and(|(_, value)| value.starts_with(['[', '{', '"']));
        command.extend([if is_json { "--set-json" } else { "--set" }, setting]);
    }
    objects(&run_helm(&command)?)
}

/// What kustomize makes of the manifests with these components, and the definitions of the custom resources.
pub(super) fn component_objects(components: &[&str]) -> anyhow::Result<Objects> {
    static OVERLAYS: AtomicU32 = AtomicU32::new(0);
    let number = OVERLAYS.fetch_add(1, Ordering::Relaxed);
    // Kustomize wants relative paths.
    let folder = target().join(format!("lab-overlay-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder)?;
    std::os::unix::fs::symlink(workspace().join("manifests"), folder.join("manifests"))?;
    let components: Vec<String> =
        components.iter().map(|one| format!("manifests/components/{one}")).collect();
    let overlay = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests"],
        "components": components,
    });
    fs::write(folder.join("kustomization.yaml"), overlay.to_string())?;
    let output = Command::new(kubectl()?).arg("kustomize").arg(&folder).output().context("starting kubectl");
    let _ = fs::remove_dir_all(&folder);
    let output = output?;
    ensure!(output.status.success(), "{components:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut all = objects(&String::from_utf8(output.stdout)?)?;
    for file in fs::read_dir(workspace().join("manifests/crds"))? {
        all.extend(objects(&fs::read_to_string(file?.path())?)?);
    }
    Ok(all)
}
