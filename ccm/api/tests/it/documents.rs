//! `docs/pools.md`, `docs/services.md`, `docs/external-ips.md` and `docs/deploy.md` against the code: what is there is
//! written down, and what is written down is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kube::CustomResourceExt as _;
use serde_json::Value;
use windlass_api::VirtualIPPool;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    text.expect("a file")
}

fn set(words: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    words.into_iter().map(Into::into).collect()
}

/// The text constants of a Rust file whose names satisfy `is_meant`.
fn constants(source: &str, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let lines = source.lines().filter_map(|line| line.trim_start().split_once("const "));
    let named = lines.filter_map(|(_, rest)| rest.split_once(": &str = \""));
    set(named.filter(|(name, _)| is_meant(name)).filter_map(|(_, value)| value.strip_suffix("\";")))
}

/// Texts that the arms of a `match` give: `Self::Overlap => "Overlap",`.
fn arms(source: &str) -> BTreeSet<String> {
    let values = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once("=> \""));
    set(values.filter_map(|(_, value)| value.strip_suffix("\",")))
}

/// The texts of a Rust file that look like the reason of a condition: one word in CamelCase.
fn reasons_in(source: &str) -> BTreeSet<String> {
    let is_reason = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.len() > 2
            && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    set(source.split('"').skip(1).step_by(2).filter(is_reason))
}

/// What is between backquotes, outside of fenced blocks.
fn spans(document: &str) -> BTreeSet<String> {
    let prose = document.split("```").step_by(2);
    set(prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)))
}

/// What is between backquotes in one column of the tables whose first heading is `heading`.
fn column(document: &str, heading: &str, column: usize) -> BTreeSet<String> {
    let mut inside = false;
    let mut cells = String::new();
    for line in document.lines() {
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        match row.get(1) {
            None => inside = false,
            Some(first) if *first == heading => inside = true,
            Some(_) if inside => cells.extend([row.get(column).unwrap_or(&""), "\n"]),
            Some(_) => {}
        }
    }
    spans(&cells)
}

/// The words of these documents that look like one of ours.
fn ours(documents: &[&str]) -> BTreeSet<String> {
    let words = documents.iter().flat_map(|document| document.split(|c: char| !is_part(c)));
    set(words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("windlass.dev/")))
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "./-".contains(c)
}

#[test]
fn every_field_of_a_pool_is_on_the_page_and_every_field_on_the_page_exists() {
    let crd = VirtualIPPool::crd();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let fields = schema.and_then(|schema| schema.properties.as_ref()).expect("properties");
    let spec = fields["spec"].properties.as_ref().expect("fields");
    let page = read("docs/pools.md");
    assert_eq!(column(&page, "field of `spec`", 1), set(spec.keys()));
    let rows =
        column(&page, "field of `spec`", 3).union(&column(&page, "field of `spec`", 2)).cloned().collect();
    for (field, schema) in spec {
        for value in schema.enum_.iter().flatten().filter_map(|value| value.0.as_str().map(str::to_owned)) {
            assert!(BTreeSet::contains(&rows, &value), "spec.{field} may be {value}");
        }
    }
    let counts = fields["status"].properties.as_ref().expect("status")["ipv4"].properties.as_ref();
    for count in counts.expect("counts").keys() {
        assert!(spans(&page).contains(count), "status.ipv4.{count}");
    }
}

/// What `kubectl explain` shows is the description, not the default.
#[test]
fn every_field_of_a_pool_that_may_be_left_out_says_its_default() {
    let crd = VirtualIPPool::crd();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let spec = &schema.and_then(|schema| schema.properties.as_ref()).expect("properties")["spec"];
    let required = spec.required.clone().unwrap_or_default();
    for (field, schema) in spec.properties.iter().flatten().filter(|(field, _)| !required.contains(field)) {
        let text = schema.description.as_deref().unwrap_or_default().replace('\n', " ");
        let said = text.split_once("Default: ").map(|(_, said)| said.trim_end_matches('.').to_owned());
        let said = said.or_else(|| text.contains("all.").then(|| "all".to_owned()));
        let said = said.unwrap_or_else(|| panic!("spec.{field} does not say its default: {text}"));
        match schema.default.as_ref().map(|default| &default.0) {
            Some(Value::String(default)) => assert_eq!(&said, default, "spec.{field}"),
            Some(Value::Array(_)) | None => assert!(!said.is_empty()),
            Some(default) => assert_eq!(said, default.to_string(), "spec.{field}"),
        }
    }
}

#[test]
fn the_example_of_a_pool_with_a_policy_has_every_field_but_those_that_need_a_reason() {
    let example: Value =
        serde_saphyr::from_str(&read("manifests/examples/pool-with-policy.yaml")).expect("YAML");
    let written = set(example["spec"].as_object().expect("a spec").keys());
    let mut fields = column(&read("docs/pools.md"), "field of `spec`", 1);
    fields.retain(|field| !["allowExternalIPs", "interface"].contains(&field.as_str()));
    assert_eq!(written, fields);
}

#[test]
fn every_annotation_and_condition_of_ours_is_on_the_pages_and_those_on_the_pages_exist() {
    let source = read("ccm/api/src/lib.rs");
    let mut known = constants(&source, |name| {
        name.starts_with("ANNOTATION_")
            || name == "CONDITION_ADDRESS_ALLOCATED"
            || name == "LOAD_BALANCER_CLASS"
    });
    assert!(known.len() >= 8, "{known:?}");
    let pages = ["docs/pools.md", "docs/services.md", "docs/external-ips.md", "README.md"].map(read);
    known.insert("windlass.dev/v1alpha1".to_owned());
    assert_eq!(ours(&pages.each_ref().map(String::as_str)), known);
    let services =
        constants(&source, |name| name.starts_with("ANNOTATION_") && name != "ANNOTATION_ALLOW_MOVE");
    assert_eq!(column(&read("docs/services.md"), "annotation", 1), services);
}

#[test]
fn the_pages_have_every_reason_of_every_condition_and_no_other() {
    let services = read("docs/services.md");
    let reasons = constants(&read("ccm/api/src/address_allocated.rs"), |_| true);
    assert_eq!(column(&services, "status", 2), reasons);

    let page = read("docs/pools.md");
    let review = read("ccm/windlass/src/controller/allocation/pools.rs");
    let ready =
        review.split("fn as_str(").nth(1).and_then(|rest| rest.split("\n    }\n").next()).expect("as_str");
    // What the review does not know of is among the words of the status, all of them constants.
    let status = read("ccm/windlass/src/controller/allocation/pools/status.rs");
    let words = constants(&status, |name| name.starts_with("REASON_"));
    assert_eq!(reasons_in(&status), words);
    let mut known = arms(ready);
    known.extend(words);
    known.insert("AddressTaken".to_owned());
    let mut written = set(["Usable", "Disabled", "AllAnnounceable"]);
    assert!(spans(&page).is_superset(&written));
    written.append(&mut column(&page, "reason of `Ready` = `False`", 1));
    written.append(&mut column(&page, "condition", 2));
    assert_eq!(written, known);
    let conditions = constants(&read("ccm/api/src/lib.rs"), |name| name.starts_with("CONDITION_"));
    for condition in conditions {
        assert!(spans(&page).contains(&condition) || spans(&services).contains(&condition), "{condition}");
    }

    let reasons = |path| constants(&read(path), |name| name.starts_with("REASON_"));
    let agent = reasons("ccm/windlass/src/agent/status.rs");
    let mut announced = reasons("ccm/windlass/src/controller/placement/plan/unplaced.rs");
    announced.extend(agent.into_iter().filter(|reason| reason != "Active"));
    announced.extend(reasons("ccm/api/src/lib.rs"));
    assert_eq!(column(&page, "reason", 1), announced);
}

#[test]
fn the_page_has_every_event_of_a_service_and_no_other() {
    // Windlass' load balancers do not depend on the nodes, so that it never tells of an update to them.
    let is_reason = |name: &str| !name.ends_with("_MESSAGE") && !["UPDATED", "UPDATE_FAILED"].contains(&name);
    let words = read("ccm/src/service/messages.rs");
    let mut events = constants(&words, is_reason);
    events.retain(|event| !event.contains(' '));
    let provider = read("ccm/windlass/src/controller/provider/load_balancer.rs");
    events.extend(constants(&provider, |name| ["MOVING", "MOVED"].contains(&name)));
    events.extend(constants(&read("ccm/windlass/src/controller/allocation/external/decide.rs"), |name| {
        name == "REFUSED"
    }));
    events
        .extend(constants(&read("ccm/windlass/src/controller/provider/status_conflict/report.rs"), |name| {
            name == "CONTESTED"
        }));
    events.extend(constants(
        &read("ccm/windlass/src/controller/provider/status_conflict/leftovers.rs"),
        |name| name == "REMOVED",
    ));
    assert_eq!(column(&read("docs/services.md"), "event", 1), events);
}

#[test]
fn every_resource_that_the_roles_name_is_on_the_page() {
    let page = read("docs/deploy.md");
    let mut resources = BTreeSet::new();
    for file in ["rbac-controller.yaml", "rbac-agent.yaml"] {
        let text = read(&format!("manifests/base/{file}"));
        for document in text.split("\n---\n") {
            let role: Value = serde_saphyr::from_str(document).expect("YAML");
            let rules = role["rules"].as_array().into_iter().flatten();
            let named = rules.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
            resources.extend(named.filter_map(Value::as_str).map(str::to_owned));
        }
    }
    assert_eq!(
        column(&page, "resource", 1)
            .into_iter()
            .filter(|span| span != "kube-system")
            .collect::<BTreeSet<_>>(),
        resources
    );
}

/// The Rust files in a folder of the repository, tests left out, as one text.
fn sources(folder: &str) -> String {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                text += &fs::read_to_string(path).expect("Rust is text");
            }
        }
    }
    text
}

#[test]
fn every_metric_is_on_the_page_and_every_metric_on_the_page_exists() {
    let sources = sources("ccm/src") + &sources("ccm/windlass/src");
    let is_metric = |text: &&str| {
        let prefixes = [
            "windlass_",
            "workqueue_",
            "service_controller_",
            "node_controller_",
            "leader_election_",
            "rest_client_",
            "running_managed_",
        ];
        prefixes.iter().any(|one| text.starts_with(one))
            && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let known = set(sources.split('"').filter(is_metric));
    assert_eq!(column(&read("docs/metrics.md"), "metric", 1), known);
}

/// Targets of the links of a page that are files.
fn links(page: &Path) -> Vec<(String, PathBuf)> {
    let text = fs::read_to_string(page).expect("a page");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or(target));
    let folder = page.parent().expect("a folder");
    files
        .filter(|file| !file.is_empty() && !file.contains("://"))
        .map(|file| (file.to_owned(), folder.join(file)))
        .collect()
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")];
    pages.extend(fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("readable").path()));
    for page in &pages {
        for (name, file) in links(page) {
            assert!(file.exists(), "{}: {name}", page.display());
        }
        let text = fs::read_to_string(page).expect("a page");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, heading)) = target.split_once('#').filter(|_| !target.contains("://")) else {
                continue;
            };
            let file =
                if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let headings = fs::read_to_string(&file).expect("a page");
            let is_there = headings.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
            assert!(is_there, "{}: {target}", page.display());
        }
    }
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn what_is_missing_is_noticed() {
    let page = "| event | when |\n|---|---|\n| `One`, `Two` | `three` |\n\n| other |\n|---|\n| `four` |\n";
    assert_eq!(column(page, "event", 1), set(["One", "Two"]));
    assert_eq!(
        ours(&["a `windlass.dev/pool: x`, windlass.dev/b."]),
        set(["windlass.dev/pool", "windlass.dev/b"])
    );
    assert_eq!(constants("pub const A: &str = \"x\";\n    const B: u8 = 1;", |_| true), set(["x"]));
    assert_eq!(arms("Self::A { .. } => \"x\",\n Self::B => y,"), set(["x"]));
    assert_eq!(reasons_in("(true, \"Some\", x) \"two words\" Not \"a\""), set(["Some"]));
    assert_eq!(anchor("## Why a `VirtualIP`, now"), "why-a-virtualip-now");
}
