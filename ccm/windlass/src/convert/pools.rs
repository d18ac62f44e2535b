//! Pools of MetalLB as `VirtualIPPool`s.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use windlass_api::{AvoidReserved, VirtualIPPoolSpec};

use super::addresses::Range;
use super::metallb::{Advertisement, Allocation, MetalLbObjects, Pool};
use super::{Conversion, announcements};

/// The last `spec.priority` there is.
const LAST: i32 = 1_000_000;
/// As many ranges, namespaces and selectors a `VirtualIPPool` has at most.
const MAX_RANGES: usize = 64;
const MAX_NAMESPACES: usize = 256;
const MAX_SELECTORS: usize = 32;

/// Converts the pools, and how they were announced.
pub(super) fn convert(objects: MetalLbObjects) -> Conversion {
    let MetalLbObjects { pools, advertisements, warnings, errors } = objects;
    let mut conversion = Conversion { warnings, errors, ..Conversion::default() };
    let mut names = BTreeSet::new();
    let mut converted = Vec::new();
    let unordered = last_priority(&pools);
    for pool in &pools {
        let name = match object_name(&pool.name) {
            Some(name) if names.insert(name.clone()) => name,
            Some(name) => {
                conversion.errors.push(format!(
                    "{}: another pool is called {name:?} already, and VirtualIPPools have no namespaces; rename one. It was left \
                     out",
                    pool.origin
                ));
                continue;
            }
            None => {
                conversion.errors.push(format!(
                    "{}: no VirtualIPPool can be called {:?}; rename it. It was left out",
                    pool.origin, pool.name
                ));
                continue;
            }
        };
        let Some(spec) = spec(pool, unordered, &advertisements, &mut conversion) else { continue };
        if name != pool.name {
            conversion.warnings.push(format!(
                "{}: the VirtualIPPool is called {name:?}, because Kubernetes has no object called {:?}; annotations of Services \
                 that name it have to follow",
                pool.origin, pool.name
            ));
        }
        if print("VirtualIPPool", &name, &spec, &pool.origin, &mut conversion) {
            conversion.pools += 1;
            converted.push((pool, name));
        }
    }
    announcements::convert(&converted, &advertisements, &mut conversion);
    conversion
}

/// What pools without a priority get, so that they come after those with one. Of equal priorities the pools that select
/// their Services come first, as with MetalLB, so the default will often do.
fn last_priority(pools: &[Pool]) -> i32 {
    let default = VirtualIPPoolSpec::default().priority;
    let highest = pools.iter().filter_map(|pool| Some(pool.allocation.as_ref()?.priority)).max();
    if highest.is_some_and(|highest| highest >= i64::from(default)) { LAST } else { default }
}

/// Only the fields that differ from their defaults.
fn spec(
    pool: &Pool,
    unordered: i32,
    advertisements: &[Advertisement],
    conversion: &mut Conversion,
) -> Option<Value> {
    let allocation = pool.allocation.clone().unwrap_or(Allocation {
        priority: 0,
        namespaces: Vec::new(),
        namespace_selectors: Vec::new(),
        service_selectors: Vec::new(),
    });
    if let Some(why) = unsupported_restriction(&allocation) {
        conversion.errors.push(format!("{}: {why}. It was left out", pool.origin));
        return None;
    }
    let addresses = addresses(pool, conversion);
    if addresses.is_empty() || addresses.len() > MAX_RANGES {
        conversion.errors.push(format!(
            "{}: spec.addresses has {} usable ranges, and a VirtualIPPool has 1 to {MAX_RANGES}; {}. It was left out",
            pool.origin,
            addresses.len(),
            if addresses.is_empty() { "add one" } else { "split the pool" }
        ));
        return None;
    }
    let avoid_reserved =
        if pool.avoid_buggy_ips { AvoidReserved::SubnetAndClassC } else { AvoidReserved::None };
    let spec = VirtualIPPoolSpec {
        addresses,
        auto_assign: pool.auto_assign,
        avoid_reserved,
        priority: priority(pool, &allocation, unordered, conversion),
        namespaces: allocation.namespaces,
        namespace_selectors: allocation.namespace_selectors,
        service_selectors: allocation.service_selectors,
        ..VirtualIPPoolSpec::default()
    };
    warn_of_unannounced(pool, advertisements, conversion);
    Some(Value::Object(differing(json!(spec), &json!(VirtualIPPoolSpec::default()))))
}

/// A restriction that cannot be kept: leaving it out would open the pool to others.
fn unsupported_restriction(allocation: &Allocation) -> Option<String> {
    let Allocation { priority: _, namespaces, namespace_selectors, service_selectors } = allocation;
    if let Some(bad) = namespaces.iter().find(|name| !is_label(name)) {
        return Some(format!(
            "spec.serviceAllocation.namespaces has {bad:?}, and no namespace is called so; correct it"
        ));
    }
    let counts = [
        ("namespaces", namespaces.len(), MAX_NAMESPACES),
        ("namespaceSelectors", namespace_selectors.len(), MAX_SELECTORS),
        ("serviceSelectors", service_selectors.len(), MAX_SELECTORS),
    ];
    counts.into_iter().find(|(_, count, most)| count > most).map(|(field, count, most)| {
        format!(
            "spec.serviceAllocation.{field} has {count} entries, and a VirtualIPPool {most} at most; split the pool"
        )
    })
}

fn addresses(pool: &Pool, conversion: &mut Conversion) -> Vec<String> {
    let (mut ranges, mut written): (Vec<Range>, Vec<String>) = (Vec::new(), Vec::new());
    for (index, text) in pool.addresses.iter().enumerate() {
        let what = format!("{}: spec.addresses[{index}]", pool.origin);
        let range = match Range::read(text) {
            Ok(range) => range,
            Err(error) => {
                conversion.errors.push(format!("{what} {error}. It was left out"));
                continue;
            }
        };
        if let Some(subnet) = Range::subnet_of_host(text) {
            conversion.warnings.push(format!(
                "{what} {text:?} has bits set behind its prefix length, and MetalLB gives all of {subnet}: so does the \
                 VirtualIPPool. If only that address was meant, write it with its full prefix length"
            ));
        }
        let left = range.without(&ranges);
        if left != [range] {
            conversion.warnings.push(format!("{what} {text:?} overlaps an earlier range: taken once"));
        }
        written.extend(left.iter().map(|part| part.written(pool.avoid_buggy_ips)));
        ranges.extend(left);
    }
    written
}

fn priority(pool: &Pool, allocation: &Allocation, unordered: i32, conversion: &mut Conversion) -> i32 {
    let field = "spec.serviceAllocation.priority";
    match i32::try_from(allocation.priority) {
        Ok(0) => unordered,
        Ok(priority) if (1..LAST).contains(&priority) => priority,
        Ok(_) | Err(_) => {
            let nearest = if allocation.priority < 0 { 0 } else { LAST - 1 };
            conversion.warnings.push(format!(
                "{}: {field} is {}, and a VirtualIPPool has 0 to {LAST}: it became {nearest}; look at the order of the pools",
                pool.origin, allocation.priority
            ));
            nearest
        }
    }
}

/// Says so where MetalLB does not announce the pool.
fn warn_of_unannounced(pool: &Pool, advertisements: &[Advertisement], conversion: &mut Conversion) {
    if !advertisements.is_empty() && !advertisements.iter().any(|one| one.announces(pool)) {
        conversion.warnings.push(format!(
            "{}: no advertisement of MetalLB names it, so it was not announced; Windlass announces every pool. Set \
             spec.disabled on the VirtualIPPool to give nothing from it",
            pool.origin
        ));
    }
}

/// The fields of `spec` that are not those of `default`.
pub(super) fn differing(spec: Value, default: &Value) -> Map<String, Value> {
    let Value::Object(fields) = spec else { return Map::new() };
    fields.into_iter().filter(|(field, value)| default.get(field) != Some(value)).collect()
}

/// Adds an object to what is printed, and says whether it could.
pub(super) fn print(kind: &str, name: &str, spec: &Value, origin: &str, conversion: &mut Conversion) -> bool {
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    });
    match serde_saphyr::to_string(&object) {
        Ok(text) => {
            conversion.yaml.push_str("---\n");
            conversion.yaml.push_str(&text);
            if !text.ends_with('\n') {
                conversion.yaml.push('\n');
            }
            true
        }
        Err(error) => {
            conversion.errors.push(format!("{origin}: cannot be written as YAML: {error}"));
            false
        }
    }
}

/// The nearest name an object may have (RFC 1123 subdomain); the names of 0.12's pools were free.
pub(super) fn object_name(name: &str) -> Option<String> {
    let mapped: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' })
        .collect();
    let labels: Vec<&str> =
        mapped.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty()).collect();
    let name = labels.join(".");
    (!name.is_empty() && name.len() <= 253).then_some(name)
}

/// RFC 1123 label: the name of a namespace.
fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
