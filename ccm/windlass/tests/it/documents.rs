//! The pages of `docs/` against the code:
//! what is there is written down, and what is written down is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;
use windlass_api::{
    ANNOUNCEMENT_CONDITIONS, Announcement, CONDITION_ADDRESS_ALLOCATED, LOAD_BALANCER_CLASS,
    NODE_CONDITION_REPORT_BELIEVED, POOL_CONDITIONS, REASON_DEFENDED, REASON_OUTSIDE_POOLS,
    SERVICE_ANNOTATIONS, SERVICE_CONDITIONS, VIRTUAL_IP_ANNOTATIONS, VIRTUAL_IP_CONDITIONS,
    VIRTUAL_ROUTER_ANNOTATIONS, VIRTUAL_ROUTER_CONDITIONS, VirtualIPPool, address_allocated, announced,
    applied, connections_replicated, event, load_shared, multicast_heard, node_event, pool_announceable,
    pool_ready,
};
use windlass_ccm::service::EVENT_REASONS;

use crate::repository::{files, read, root, rows};

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
    let rows = rows(document, heading);
    let cells: Vec<&str> = rows.iter().filter_map(|row| row.get(column - 1)).copied().collect();
    spans(&cells.join("\n"))
}

/// The words of these documents that look like one of ours.
fn ours(documents: &[&str]) -> BTreeSet<String> {
    let words = documents.iter().flat_map(|document| document.split(|c: char| !is_part(c)));
    set(words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("windlass.dev/")))
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "./-".contains(c)
}

/// The schema of `spec` of a kind.
fn spec<K: kube::CustomResourceExt>() -> JSONSchemaProps {
    let crd = K::crd();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    fields(schema.expect("a schema"))["spec"].clone()
}

/// The schemas of the fields of an object.
fn fields(schema: &JSONSchemaProps) -> &BTreeMap<String, JSONSchemaProps> {
    schema.properties.as_ref().expect("fields")
}

/// What `kubectl explain` shows is the description, not the default.
fn assert_default_is_said(spec: &JSONSchemaProps) {
    let required = spec.required.clone().unwrap_or_default();
    for (field, schema) in fields(spec).iter().filter(|(field, _)| !required.contains(field)) {
        if let Some(Value::Object(_)) = schema.default.as_ref().map(|default| &default.0) {
            assert_default_is_said(schema);
            continue;
        }
        let text = schema.description.as_deref().unwrap_or_default().replace('\n', " ");
        let said = text.split_once("Default: ").map(|(_, said)| said.trim_end_matches('.').to_owned());
        let said = said.or_else(|| text.contains("all.").then(|| "all".to_owned()));
        let said = said.unwrap_or_else(|| panic!("{field} does not say its default: {text}"));
        match schema.default.as_ref().map(|default| &default.0) {
            Some(Value::String(default)) => assert_eq!(&said, default, "{field}"),
            Some(Value::Array(_)) | None => assert!(!said.is_empty()),
            Some(default) => assert_eq!(said, default.to_string(), "{field}"),
        }
    }
}

#[test]
fn every_field_of_a_pool_or_announcement_that_may_be_left_out_says_its_default() {
    assert_default_is_said(&spec::<VirtualIPPool>());
    assert_default_is_said(&spec::<Announcement>());
}

#[test]
fn the_example_of_a_pool_with_a_policy_has_every_field_but_the_one_that_needs_a_reason() {
    let example: Value =
        serde_saphyr::from_str(&read("manifests/examples/pool-with-policy.yaml")).expect("YAML");
    let written = set(example["spec"].as_object().expect("a spec").keys());
    let mut known = set(fields(&spec::<VirtualIPPool>()).keys());
    known.remove("allowExternalIPs");
    assert_eq!(written, known);
}

#[test]
fn the_example_of_an_announcement_has_every_field() {
    let example: Value = serde_saphyr::from_str(&read("manifests/examples/announcement.yaml")).expect("YAML");
    let spec = spec::<Announcement>();
    for (value, schema) in [(&example["spec"], &spec), (&example["spec"]["vrrp"], &fields(&spec)["vrrp"])] {
        assert_eq!(set(value.as_object().expect("fields").keys()), set(fields(schema).keys()));
    }
}

#[test]
fn every_annotation_and_condition_of_ours_is_on_the_pages_and_those_on_the_pages_exist() {
    let pages = [
        "docs/pools.md",
        "docs/services.md",
        "docs/local.md",
        "docs/announcements.md",
        "docs/conditions.md",
        "docs/failover.md",
        "README.md",
    ]
    .map(read);
    let others = [
        CONDITION_ADDRESS_ALLOCATED,
        NODE_CONDITION_REPORT_BELIEVED,
        LOAD_BALANCER_CLASS,
        "windlass.dev/v1alpha1",
    ];
    let known = all(&[SERVICE_ANNOTATIONS, VIRTUAL_IP_ANNOTATIONS, VIRTUAL_ROUTER_ANNOTATIONS, &others]);
    assert_eq!(ours(&pages.each_ref().map(String::as_str)), known);
    assert_eq!(column(&read("docs/services.md"), "annotation", 1), set(SERVICE_ANNOTATIONS.iter().copied()));
}

#[test]
fn the_page_has_every_reason_of_every_condition_and_no_other() {
    let page = read("docs/conditions.md");
    let of_services: BTreeSet<String> = ["reason while `True`", "reason while `False`"]
        .iter()
        .flat_map(|one| column(&page, one, 1))
        .collect();
    assert_eq!(of_services, all(&[address_allocated::ALL]));

    assert_eq!(column(&page, "reason of `Ready` = `False`", 1), all(&[pool_ready::FAULTS]));
    let of_others = [REASON_OUTSIDE_POOLS, announced::ADDRESS_TAKEN, event::EXTERNAL_IP_REFUSED];
    assert_eq!(column(&page, "condition", 2), all(&[pool_announceable::FAULTS, &of_others]));
    let of_announced = all(&[announced::FAULTS, announced::UNPLACED, &[announced::QUARANTINED]]);
    assert_eq!(column(&page, "reason of `Announced` = `False`", 1), of_announced);
    let of_connections = column(&page, "reason of `ConnectionsReplicated` = `False`", 1);
    assert_eq!(of_connections, all(&[connections_replicated::OBSTACLES, connections_replicated::FAULTS]));
    let of_sharing = column(&page, "reason of `LoadShared` = `False`", 1);
    assert_eq!(of_sharing, all(&[load_shared::FAULTS]));
    assert_eq!(column(&page, "reason of `Applied` = `False`", 1), all(&[applied::FAULTS]));

    let conditions: [&[&str]; 6] = [
        SERVICE_CONDITIONS,
        VIRTUAL_IP_CONDITIONS,
        POOL_CONDITIONS,
        ANNOUNCEMENT_CONDITIONS,
        VIRTUAL_ROUTER_CONDITIONS,
        &[NODE_CONDITION_REPORT_BELIEVED],
    ];
    let of_true = [
        pool_ready::USABLE,
        pool_ready::DISABLED,
        pool_announceable::ALL,
        announced::ACTIVE,
        connections_replicated::REPLICATED,
        load_shared::SHARED,
        applied::ALL,
        applied::NOTHING_SELECTED,
        REASON_DEFENDED,
    ];
    let named: BTreeSet<String> =
        all(&conditions).union(&all(&[&of_true, multicast_heard::ALL])).cloned().collect();
    let missing: Vec<String> = named.difference(&spans(&page)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_page_has_every_event_of_a_service_and_no_other() {
    let mut events = all(&[&EVENT_REASONS, event::ALL]);
    // Windlass' load balancers do not depend on the nodes, so that it never tells of an update to them.
    events.retain(|event| !["UpdatedLoadBalancer", "UpdateLoadBalancerFailed"].contains(&event.as_str()));
    assert_eq!(column(&read("docs/conditions.md"), "event of a Service", 1), events);
}

#[test]
fn the_page_has_every_event_of_a_node_and_no_other() {
    assert_eq!(column(&read("docs/conditions.md"), "event of a Node", 1), all(&[node_event::ALL]));
}

#[test]
fn every_resource_that_the_roles_name_is_on_the_page() {
    let page = read("docs/security.md");
    let mut resources = BTreeSet::new();
    for file in ["rbac-controller.yaml", "rbac-lease.yaml", "rbac-nodes.yaml", "rbac-agent.yaml"] {
        let text = read(format!("manifests/base/{file}"));
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
            .filter(|span| !["kube-system", "windlass-system"].contains(&&**span))
            .collect::<BTreeSet<_>>(),
        resources
    );
}

#[test]
fn the_page_has_every_alert_with_the_place_that_it_links_to_and_no_other() {
    let rules: Value =
        serde_saphyr::from_str(&read("manifests/components/prometheus-rules/rules.yaml")).expect("YAML");
    let (page, metrics) = (read("docs/alerts.md"), read("docs/metrics.md"));
    let rules = rules["spec"]["groups"][0]["rules"].as_array().expect("rules");
    let word = |rule: &Value, pointer: &str| {
        rule.pointer(pointer).and_then(Value::as_str).expect("a word").to_owned()
    };
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = word(rule, "/alert");
        let link = format!("https://windlass.dev/docs/alerts.md#{}", anchor(&name));
        assert_eq!(word(rule, "/annotations/runbook_url"), link);
        let expression = word(rule, "/expr");
        let series = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let mut series =
            series.filter(|word| word.starts_with("windlass_") || word.starts_with("leader_")).peekable();
        assert!(series.peek().is_some(), "{name} asks for no metric: {expression}");
        for one in series {
            assert!(metrics.contains(&format!("`{}`", one.trim_end_matches("_bucket"))), "{name}: {one}");
        }
        names.insert(name);
    }
    let headings =
        page.lines().filter_map(|line| line.strip_prefix("## ")).filter(|name| name.starts_with("Windlass"));
    assert_eq!(set(headings), names);
}

#[test]
fn the_readme_names_the_versions_of_kubernetes_that_the_tests_run() {
    let readme = read("README.md");
    let row = readme.lines().find(|line| line.starts_with("| Kubernetes |")).expect("a row");
    for modules in ["e2e/tools/go.mod", "e2e/tools/oldest/go.mod"] {
        let text = read(modules);
        let version = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
        let version = version.and_then(|rest| rest.split(' ').next()).expect("a version");
        assert!(row.contains(&format!(" {version}")), "{modules} has {version}: {row}");
    }
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
    let mut pages = files("docs", "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| root().join(page)));
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
