//! Parser of the YAML settings. Every error is found here, and reported with its line.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use windlass_ccm::node::is_kubernetes_own;

use super::glob::Glob;
use super::text::{LabelKey, LabelValue, NodeName};
use super::{CloudConfig, DELETE_AFTER, Lifecycle, MetadataEntry, ValueSource};

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "CloudConfig";
/// Characters of a line that an error shows.
const SHOWN: usize = 80;
/// A machine that restarts comes back within this time.
const LEAST_DELETE_AFTER: Duration = Duration::from_mins(1);

impl CloudConfig {
    /// Reads a file's text. The error names line and field.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(format!("it is empty; give at least apiVersion: {API_VERSION} and kind: {KIND}"));
        }
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| parse_error(&error.to_string(), text))?;
        Ok(Self { metadata: document.node_metadata, lifecycle: document.node_lifecycle })
    }
}

/// Returns the first error, with the line that contains it as written. The parser counts lines, and shows several of them below.
fn parse_error(error: &str, text: &str) -> String {
    let first = error.lines().next().unwrap_or("it cannot be read");
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let shown = || {
        let (place, reason) = first.strip_prefix("line ")?.split_once(": ")?;
        let number: usize = place.split(' ').next()?.parse().ok()?;
        let line: String = text.lines().nth(number.checked_sub(1)?)?.trim().chars().take(SHOWN).collect();
        Some(format!("line {number} ({line}): {reason}"))
    };
    shown().unwrap_or_else(|| first.to_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: ConfigKind,
    #[serde(default)]
    node_metadata: Vec<MetadataEntry>,
    #[serde(default)]
    node_lifecycle: Lifecycle,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct ApiVersion;

impl TryFrom<String> for ApiVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        (text == API_VERSION)
            .then_some(Self)
            .ok_or_else(|| format!("apiVersion is {text:?}; give {API_VERSION}"))
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct ConfigKind;

impl TryFrom<String> for ConfigKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        (text == KIND).then_some(Self).ok_or_else(|| format!("kind is {text:?}; give {KIND}"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawMetadataEntry {
    #[serde(default)]
    nodes: Vec<Glob>,
    #[serde(default)]
    node_selector: BTreeMap<LabelKey, LabelValue>,
    zone: Option<LabelValue>,
    zone_from_label: Option<LabelKey>,
    region: Option<LabelValue>,
    region_from_label: Option<LabelKey>,
    instance_type: Option<LabelValue>,
    instance_type_from_label: Option<LabelKey>,
    #[serde(default)]
    labels: BTreeMap<OwnLabel, LabelValue>,
}

/// A label that nobody but the admin sets.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "LabelKey")]
struct OwnLabel(LabelKey);

impl TryFrom<LabelKey> for OwnLabel {
    type Error = String;

    fn try_from(key: LabelKey) -> Result<Self, String> {
        if !is_kubernetes_own(key.as_str()) {
            return Ok(Self(key));
        }
        Err(format!(
            "label {key} is of one of Kubernetes' own domains, whose labels are not set here; zone, region and instanceType \
             have fields of their own"
        ))
    }
}

impl<'de> Deserialize<'de> for MetadataEntry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawMetadataEntry::deserialize(deserializer)?;
        let source = |field: &str, value, label| match (value, label) {
            (Some(_), Some(_)) => Err(serde::de::Error::custom(format!(
                "an entry of nodeMetadata has both {field} and {field}FromLabel; give one of them, and the other in an \
                 entry below for the nodes without that label"
            ))),
            (Some(value), None) => Ok(Some(ValueSource::Value(value))),
            (None, Some(label)) => Ok(Some(ValueSource::Label(label))),
            (None, None) => Ok(None),
        };
        Ok(Self {
            nodes: raw.nodes,
            selector: raw.node_selector,
            zone: source("zone", raw.zone, raw.zone_from_label)?,
            region: source("region", raw.region, raw.region_from_label)?,
            instance_type: source("instanceType", raw.instance_type, raw.instance_type_from_label)?,
            labels: raw.labels.into_iter().map(|(OwnLabel(key), value)| (key, value)).collect(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawLifecycle {
    #[serde(default)]
    delete_nodes: Vec<NodeName>,
    delete_after: Option<DeleteAfter>,
    #[serde(default)]
    shutdown_nodes: Vec<NodeName>,
}

impl<'de> Deserialize<'de> for Lifecycle {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawLifecycle::deserialize(deserializer)?;
        Ok(Self {
            delete_nodes: raw.delete_nodes,
            delete_after: raw.delete_after.map_or(DELETE_AFTER, |DeleteAfter(period)| period),
            shutdown_nodes: raw.shutdown_nodes,
        })
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct DeleteAfter(Duration);

impl TryFrom<String> for DeleteAfter {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read: Option<Duration> =
            text.parse::<SignedDuration>().ok().and_then(|period| period.try_into().ok());
        read.filter(|period| *period >= LEAST_DELETE_AFTER).map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no time of at least one minute; give hours, minutes or seconds, as 1h or 1h30m"
            )
        })
    }
}
