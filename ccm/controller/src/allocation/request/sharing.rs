//! Terms on which a Service uses an address, and the Services that it shares it with.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::ResourceExt as _;
use windlass_ipam::{Port, Protocol, Sharing, Terms, TrafficPolicy};

use super::annotations::Annotations;
use super::error::{RequestError, shortened};
use super::limits::{LONGEST_KEY, MOST_NAMESPACES, MOST_PORTS};

/// The terms of a Service.
///
/// # Errors
/// What is wrong with its ports, its sharing key or the namespaces it shares with.
pub(super) fn terms(service: &Service, annotations: Annotations<'_>) -> Result<Terms, RequestError> {
    let namespace = service.namespace().unwrap_or_default();
    let spec = service.spec.as_ref();
    let mut ports = BTreeSet::new();
    for port in spec.iter().filter_map(|spec| spec.ports.as_ref()).flatten() {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => Protocol::Tcp,
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            Some(other) => return Err(RequestError::UnknownProtocol { value: shortened(other) }),
        };
        match u16::try_from(port.port) {
            Ok(number) if number > 0 => ports.insert(Port { protocol, number }),
            Ok(_) | Err(_) => return Err(RequestError::Port { value: port.port }),
        };
    }
    if ports.len() > MOST_PORTS {
        return Err(RequestError::TooManyPorts { number: ports.len() });
    }
    let sharing = sharing(&namespace, annotations)?;
    let traffic = traffic(&namespace, &service.name_any(), spec);
    Ok(Terms { namespace, ports, traffic, sharing })
}

/// With `externalTrafficPolicy: Local` only nodes that run pods of the Service take its traffic, so that two Services
/// can share an address only if they have the same pods: equal selectors in one namespace. Pods of a Service without a
/// selector are unknown, and equal to nobody's.
fn traffic(namespace: &str, name: &str, spec: Option<&ServiceSpec>) -> TrafficPolicy {
    if spec.and_then(|spec| spec.external_traffic_policy.as_deref()) != Some("Local") {
        return TrafficPolicy::Cluster;
    }
    let labels: Vec<_> = spec
        .iter()
        .filter_map(|spec| spec.selector.as_ref())
        .flatten()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let selector = if labels.is_empty() {
        format!("the endpoints of {namespace}/{name}")
    } else {
        format!("{namespace}: {}", labels.join(","))
    };
    TrafficPolicy::Local { selector }
}

fn sharing(namespace: &str, annotations: Annotations<'_>) -> Result<Option<Sharing>, RequestError> {
    let with = annotations.share_with();
    let Some(key) = annotations.sharing_key() else {
        return match with {
            Some(_) => Err(RequestError::ShareWithoutKey),
            None => Ok(None),
        };
    };
    if key.text.len() > LONGEST_KEY {
        return Err(RequestError::LongKey { annotation: key.annotation, length: key.text.len() });
    }
    if let Some(character) = key.text.chars().find(|character| !character.is_ascii_graphic()) {
        return Err(RequestError::KeyCharacter { annotation: key.annotation, character });
    }
    let mut others = BTreeSet::new();
    for item in with.iter().flat_map(|entry| entry.text.split(',')).map(str::trim) {
        if !is_label(item) {
            return Err(RequestError::NoNamespace { value: shortened(item) });
        }
        if item != namespace {
            others.insert(item.to_owned());
        }
    }
    if others.len() > MOST_NAMESPACES {
        return Err(RequestError::TooManyNamespaces { number: others.len() });
    }
    Ok(Some(Sharing { key: key.text.to_owned(), with: others }))
}

/// Returns true if `text` is a valid name of a namespace (RFC 1123 label).
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63
        && text.bytes().all(inner)
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true if `text` is a valid name of an object (RFC 1123 subdomain).
pub(crate) fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
