//! `docs/pools.md`, `docs/services.md`, `docs/external-ips.md` and `docs/deploy.md` against the code: what is there is
//! written down, and what is written down is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kube::CustomResourceExt as _;
use serde_json::Value;
use windlass_api::{
    CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, POOL_CONDITIONS, REASON_OUTSIDE_POOLS,
    SERVICE_ANNOTATIONS, SERVICE_CONDITIONS, VIRTUAL_IP_ANNOTATIONS, VIRTUAL_IP_CONDITIONS, VirtualIPPool,
    address_allocated, announced, event, pool_announceable, pool_ready,
};
use windlass_ccm::service::EVENT_REASONS;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    text.expect("a file")
}

fn set(words: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    words.into_iter().map(Into::into).collect()
}

/// All of these lists.
fn all(lists: &[&[&str]]) -> BTreeSet<String> {
    set(lists.iter().copied().flatten().copied())
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
    let pages = ["docs/pools.md", "docs/services.md", "docs/external-ips.md", "README.md"].map(read);
    let others = [CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS, "windlass.dev/v1alpha1"];
    let known = all(&[SERVICE_ANNOTATIONS, VIRTUAL_IP_ANNOTATIONS, &others]);
    assert_eq!(ours(&pages.each_ref().map(String::as_str)), known);
    assert_eq!(column(&read("docs/services.md"), "annotation", 1), set(SERVICE_ANNOTATIONS.iter().copied()));
}

#[test]
fn the_pages_have_every_reason_of_every_condition_and_no_other() {
    let (services, pools) = (read("docs/services.md"), read("docs/pools.md"));
    assert_eq!(column(&services, "status", 2), all(&[address_allocated::ALL]));

    assert_eq!(column(&pools, "reason of `Ready` = `False`", 1), all(&[pool_ready::FAULTS]));
    let of_others = [REASON_OUTSIDE_POOLS, announced::ADDRESS_TAKEN];
    assert_eq!(column(&pools, "condition", 2), all(&[pool_announceable::FAULTS, &of_others]));
    let of_announced = all(&[announced::FAULTS, announced::UNPLACED, &[announced::QUARANTINED]]);
    assert_eq!(column(&pools, "reason", 1), of_announced);
    let of_true =
        all(&[&[pool_ready::USABLE, pool_ready::DISABLED, pool_announceable::ALL, announced::ACTIVE]]);
    assert!(spans(&pools).is_superset(&of_true));

    let spans: BTreeSet<String> = spans(&pools).union(&spans(&services)).cloned().collect();
    assert!(spans.is_superset(&all(&[SERVICE_CONDITIONS, VIRTUAL_IP_CONDITIONS, POOL_CONDITIONS])));
}

#[test]
fn the_page_has_every_event_of_a_service_and_no_other() {
    let mut events = all(&[&EVENT_REASONS, event::ALL]);
    // Windlass' load balancers do not depend on the nodes, so that it never tells of an update to them.
    events.retain(|event| !["UpdatedLoadBalancer", "UpdateLoadBalancerFailed"].contains(&event.as_str()));
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
    assert_eq!(anchor("## Why a `VirtualIP`, now"), "why-a-virtualip-now");
}
