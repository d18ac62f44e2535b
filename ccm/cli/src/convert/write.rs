//! Prints `VirtualIPPool`s that the API server accepts and that share no address, and `Announcement`s. Settings that cannot be kept are
//! reported with their remedy (`report`), and no pool becomes available to further Services.

mod report;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use windlass_api::{AnnouncementSpec, VirtualIPPoolSpec};

use self::report::Weight;
pub(super) use self::report::{Place, set_fields};
use super::addresses::Range;
use super::expressions::is_interface;

/// Maximum numbers of ranges of a `VirtualIPPool`, and of namespaces (or pools) and selectors (or interfaces) of that and an `Announcement`.
const MAX_RANGES: usize = 64;
const MAX_NAMESPACES: usize = 256;
const MAX_SELECTORS: usize = 32;

/// A pool of another program, nearly converted.
pub(super) struct Draft {
    /// As the other program has it.
    pub(super) name: String,
    pub(super) listed: Vec<Listed>,
    /// True if no end of a range may be taken for that of a subnet, as in [`Range::written`].
    pub(super) ends_usable: bool,
    /// Path of the field that holds `namespaces` and selectors, as `spec.serviceAllocation`.
    pub(super) restrictions: &'static str,
    /// All but the addresses.
    pub(super) spec: VirtualIPPoolSpec,
}

/// Addresses that a pool lists.
pub(super) struct Listed {
    /// Path of the field, as `spec.addresses[0]`.
    pub(super) field: String,
    /// A CIDR, a range, or an address.
    pub(super) text: String,
    /// True if the first and last of them are never assigned.
    pub(super) without_ends: bool,
}

/// Takes pools, Announcements and reports of all [`Place`]s of an input.
#[derive(Default)]
pub(super) struct Writer {
    /// The program whose pools are converted, as messages call it.
    program: &'static str,
    printed: RefCell<Printed>,
    /// Messages, each with the objects that it is about.
    reports: RefCell<Vec<(Weight, String, Vec<String>)>>,
    /// Objects of other programs.
    foreign: RefCell<Vec<String>>,
}

#[derive(Default)]
struct Printed {
    yaml: String,
    pools: BTreeSet<String>,
    announcements: BTreeSet<String>,
    /// Ranges of the pools that were printed.
    given: Vec<Range>,
    /// Addresses that no pool may have, and their use.
    reserved: Vec<(Range, &'static str)>,
}

impl Writer {
    pub(super) fn new(program: &'static str, errors: Vec<String>) -> Self {
        let reports = errors.into_iter().map(|error| (Weight::Error, error, Vec::new())).collect();
        Self { program, reports: RefCell::new(reports), ..Self::default() }
    }

    /// Keeps an address out of all pools.
    pub(super) fn reserve(&self, address: IpAddr, its_use: &'static str) {
        self.printed.borrow_mut().reserved.push((Range::of(address), its_use));
    }

    /// Returns true if a pool that was printed has the address.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.printed.borrow().given.iter().any(|range| range.contains(address))
    }

    /// Prints settings of `windlass vip`, if it takes them.
    pub(super) fn vips(&self, vips: &[Value]) {
        if vips.is_empty() {
            return;
        }
        let place = self.at("the settings");
        match serde_saphyr::to_string(&json!({ "vips": vips })) {
            Ok(text) => match windlass_node::vip::check_settings(&text) {
                Ok(()) => self.printed.borrow_mut().yaml = text,
                Err(error) => place.refuse(format!("windlass vip would refuse them: {error}")),
            },
            Err(error) => place.refuse(format!("they cannot be written as YAML: {error}")),
        }
    }
}

impl Place<'_> {
    /// Prints a pool. Returns the name of the `VirtualIPPool`, if there is one now.
    pub(super) fn pool(&self, draft: Draft) -> Option<String> {
        let Draft { name: named, listed, ends_usable, restrictions, spec } = draft;
        let name = match object_name(&named) {
            Some(name) if !self.writer.printed.borrow().pools.contains(&name) => name,
            Some(name) => {
                self.refuse(format!(
                    "another pool is called {name:?} already, and VirtualIPPools have no namespaces; rename one"
                ));
                return None;
            }
            None => {
                self.refuse(format!("{named:?} cannot be the name of a VirtualIPPool; rename the pool"));
                return None;
            }
        };
        if let Some(why) = unsupported_restriction(&spec, restrictions) {
            self.refuse(why);
            return None;
        }
        let Addresses { written: addresses, ranges, has_errors } = self.addresses(&listed, ends_usable);
        // The reason is reported already.
        if addresses.is_empty() && has_errors {
            return None;
        }
        if addresses.is_empty() || addresses.len() > MAX_RANGES {
            let remedy = if addresses.is_empty() { "add one" } else { "split the pool" };
            let count = addresses.len();
            self.refuse(format!(
                "it has {count} usable ranges, and a VirtualIPPool has 1 to {MAX_RANGES}; {remedy}"
            ));
            return None;
        }
        if name != named {
            self.warn(format!(
                "the VirtualIPPool is called {name:?}, because {named:?} is not a valid name in Kubernetes. Change the \
                 annotations of Services that name the pool"
            ));
        }
        let spec = VirtualIPPoolSpec { addresses, ..spec };
        let spec = differing(json!(spec), &json!(VirtualIPPoolSpec::default()));
        if !self.print("VirtualIPPool", &name, &Value::Object(spec)) {
            return None;
        }
        let mut printed = self.writer.printed.borrow_mut();
        printed.given.extend(ranges);
        printed.pools.insert(name.clone());
        Some(name)
    }

    /// Returns the ranges as a `VirtualIPPool` has them, without duplicates.
    fn addresses(&self, listed: &[Listed], ends_usable: bool) -> Addresses {
        let printed = self.writer.printed.borrow();
        let (mut ranges, mut has_errors) = (Vec::new(), false);
        for Listed { field, text, without_ends } in listed {
            let place = self.part(field);
            let range = match Range::read(text) {
                Ok(range) => range,
                Err(error) => {
                    has_errors = true;
                    place.refuse(error);
                    continue;
                }
            };
            if let Some(subnet) = Range::subnet_of_host(text) {
                place.note(format!(
                    "{text:?} has bits set behind its prefix length, and {} assigns all of {subnet}: so does the VirtualIPPool. \
                     If you mean only that address, write it with its full prefix length (/32 or /128)",
                    self.writer.program
                ));
            }
            let range = if *without_ends { range.without_ends() } else { range };
            let of_others = range.without(&printed.given);
            if of_others != [range] {
                place.warn(format!(
                    "{text:?} has addresses of a pool above, which keeps them: only one VirtualIPPool can have an address. Make \
                     sure that the Services with these addresses may use that pool"
                ));
            }
            let mut left = of_others;
            for (reserved, its_use) in &printed.reserved {
                let rest: Vec<Range> = left.iter().flat_map(|part| part.without(&[*reserved])).collect();
                if rest != left {
                    let address = reserved.written(false);
                    place.note(format!("{text:?} is converted without {address}, which is {its_use}"));
                    left = rest;
                }
            }
            let new: Vec<Range> = left.iter().flat_map(|part| part.without(&ranges)).collect();
            if new != left {
                place.note(format!(
                    "{text:?} overlaps an earlier range: the VirtualIPPool has the common addresses once"
                ));
            }
            ranges.extend(new);
        }
        if ranges.len() > MAX_RANGES {
            ranges = Range::joined(ranges);
        }
        let written = ranges.iter().map(|part| part.written(ends_usable)).collect();
        Addresses { written, ranges, has_errors }
    }

    /// Prints a pool, and an Announcement for it alone.
    pub(super) fn pool_with(&self, draft: Draft, spec: AnnouncementSpec) {
        let Some(pool) = self.pool(draft).filter(|_| spec != AnnouncementSpec::default()) else { return };
        self.announcement(&pool, &AnnouncementSpec { pools: vec![pool.clone()], ..spec });
    }

    /// Prints the fields of an Announcement that differ from their defaults, if any do, under this name, or a like one if that is taken.
    pub(super) fn announcement(&self, name: &str, spec: &AnnouncementSpec) {
        if *spec == AnnouncementSpec::default() {
            return;
        }
        if let Some(bad) = spec.interfaces.iter().find(|name| !is_interface(name)) {
            self.refuse(format!(
                "{bad:?} cannot be the name of an interface: a name has 1 to 15 characters without spaces and \"/\"; correct it"
            ));
            return;
        }
        let lists = [
            ("namespaces", spec.namespaces.len(), MAX_NAMESPACES),
            ("pools", spec.pools.len(), MAX_NAMESPACES),
            ("nodeSelectors", spec.node_selectors.len(), MAX_SELECTORS),
            ("serviceSelectors", spec.service_selectors.len(), MAX_SELECTORS),
            ("interfaces", spec.interfaces.len(), MAX_SELECTORS),
        ];
        if let Some((field, count, most)) = lists.into_iter().find(|(_, count, most)| count > most) {
            self.refuse(format!(
                "the Announcement would have {count} entries in spec.{field}, and the maximum is {most}; split it. Until then \
                 every node with the subnet of its pools announces them"
            ));
            return;
        }
        let name = object_name(name).unwrap_or_else(|| "announcement".to_owned());
        let name = take_name(name, &mut self.writer.printed.borrow_mut().announcements);
        let spec = differing(json!(spec), &json!(AnnouncementSpec::default()));
        self.print("Announcement", &name, &Value::Object(spec));
    }

    /// Prints an object; true if it could.
    fn print(&self, kind: &str, name: &str, spec: &Value) -> bool {
        let object = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        match serde_saphyr::to_string(&object) {
            Ok(text) => {
                self.writer.printed.borrow_mut().yaml.extend(["---\n", text.trim_end(), "\n"]);
                true
            }
            Err(error) => {
                self.refuse(format!("it cannot be written as YAML: {error}"));
                false
            }
        }
    }
}

/// The addresses of a pool.
struct Addresses {
    /// As the pool has them.
    written: Vec<String>,
    ranges: Vec<Range>,
    /// True if one was left out, which is reported.
    has_errors: bool,
}

/// A restriction that cannot be kept: leaving it out would open the pool to others.
fn unsupported_restriction(spec: &VirtualIPPoolSpec, field: &str) -> Option<String> {
    let VirtualIPPoolSpec { namespaces, namespace_selectors, service_selectors, .. } = spec;
    if let Some(bad) = namespaces.iter().find(|name| !is_label(name)) {
        return Some(format!(
            "{field}.namespaces has {bad:?}, which cannot be the name of a namespace; correct it"
        ));
    }
    let counts = [
        ("namespaces", namespaces.len(), MAX_NAMESPACES),
        ("namespaceSelectors", namespace_selectors.len(), MAX_SELECTORS),
        ("serviceSelectors", service_selectors.len(), MAX_SELECTORS),
    ];
    counts.into_iter().find(|(_, count, most)| count > most).map(|(list, count, most)| {
        format!("{field}.{list} has {count} entries, and a VirtualIPPool has at most {most}; split the pool")
    })
}

/// The fields of `spec` that are not those of `default`.
fn differing(spec: Value, default: &Value) -> Map<String, Value> {
    let Value::Object(fields) = spec else { return Map::new() };
    fields.into_iter().filter(|(field, value)| default.get(field) != Some(value)).collect()
}

/// Takes this name, with a number behind it where it is taken.
fn take_name(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = free.unwrap_or(name);
    taken.insert(name.clone());
    name
}

/// The nearest name an object may have (RFC 1123 subdomain).
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
