//! Services in an input: what they ask for by annotations of another program, and whether they keep their addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::fields::{self, FieldError, Object, origin};
use super::write::{Place, Writer};

/// Conversion of an annotation of another program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Becomes {
    /// An annotation of Windlass, of the same value.
    Ours(&'static str),
    /// The controller reads it as this annotation of Windlass, with `--compat-annotations`.
    IsRead(&'static str),
    /// Nothing: the program writes it itself.
    Record,
    /// Nothing; why, and what to do.
    Nothing(&'static str),
}

/// Annotations and classes that another program reads on Services.
pub(super) struct Program {
    /// Prefixes of its annotations.
    pub(super) prefixes: &'static [&'static str],
    /// Annotations by which Services share an address, whatever their namespaces are.
    pub(super) sharing: &'static [&'static str],
    pub(super) name: &'static str,
    /// Annotations, and what becomes of them.
    pub(super) annotations: &'static [(&'static str, Becomes)],
    /// Annotations that name addresses.
    pub(super) addresses: &'static [&'static str],
    /// Its classes of load balancers.
    pub(super) classes: &'static [&'static str],
}

/// Reports what Services ask for that Windlass reads otherwise or not at all, after all pools were printed. `classes` are further
/// classes of the program.
pub(super) fn look(services: &[Value], program: &Program, classes: &[String], writer: &Writer) {
    let mut sharing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for service in services {
        let place = writer.at(origin(service));
        if let Err(error) = look_at(&Object::new(service), &place, program, classes, &mut sharing, writer) {
            place.warn(error.to_string());
        }
    }
    for (key, namespaces) in sharing.iter().filter(|(_, namespaces)| namespaces.len() > 1) {
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        writer.at(format!("Services with the sharing key {key:?}")).warn(format!(
            "they share an address across the namespaces {}. {} allows this; Windlass requires that the Services name each \
             other's namespace. Set windlass.dev/share-with on all of them",
            namespaces.join(", "),
            program.name
        ));
    }
}

/// True if the Service is one that the program serves; reports a class that no Service can keep.
fn is_served(
    service: &Object<'_>,
    place: &Place<'_>,
    program: &Program,
    classes: &[String],
) -> Result<bool, FieldError> {
    if fields::text(service, "spec.type")? != Some("LoadBalancer") {
        return Ok(false);
    }
    let Some(class) = fields::text(service, "spec.loadBalancerClass")? else { return Ok(true) };
    if !program.classes.contains(&class) && !classes.iter().any(|other| other == class) {
        return Ok(false);
    }
    place.warn(format!(
        "spec.loadBalancerClass is {class:?}, which Windlass does not serve and Kubernetes does not allow to change: create the \
         Service again without it, or with windlass.dev/windlass, and name its addresses in windlass.dev/addresses"
    ));
    Ok(true)
}

/// Reports the annotations of the program.
fn look_at_annotations(annotations: &BTreeMap<String, String>, place: &Place<'_>, program: &Program) {
    for (key, value) in annotations {
        let becomes = program.annotations.iter().find(|(other, _)| other == key).map(|(_, becomes)| *becomes);
        let what = match becomes {
            Some(Becomes::Ours(ours)) => {
                format!("annotation {key} has no effect with Windlass; write {ours}: {value:?} instead")
            }
            Some(Becomes::IsRead(ours)) => format!(
                "annotation {key} has an effect only if the controller runs with --compat-annotations=true: set that flag, or \
                 write {ours}: {value:?}"
            ),
            Some(Becomes::Nothing(why)) => format!("annotation {key} has no counterpart: {why}"),
            None if program.prefixes.iter().any(|prefix| key.starts_with(prefix)) => format!(
                "annotation {key} is not converted: Windlass does not know it. docs/services.md lists the annotations that it reads"
            ),
            Some(Becomes::Record) | None => continue,
        };
        place.warn(what);
    }
}

fn look_at(
    service: &Object<'_>,
    place: &Place<'_>,
    program: &Program,
    classes: &[String],
    sharing: &mut BTreeMap<String, BTreeSet<String>>,
    writer: &Writer,
) -> Result<(), FieldError> {
    if !is_served(service, place, program, classes)? {
        return Ok(());
    }
    let annotations = fields::labels(service, "metadata.annotations")?;
    look_at_annotations(&annotations, place, program);
    if let Some(key) = program.sharing.iter().find_map(|key| annotations.get(*key)) {
        let namespace = fields::text(service, "metadata.namespace")?.unwrap_or("default");
        sharing.entry(key.clone()).or_default().insert(namespace.to_owned());
    }
    let mut named: Vec<&str> = Vec::new();
    for key in program.addresses {
        named.extend(annotations.get(*key).into_iter().flat_map(|value| value.split(',')));
    }
    named.extend(fields::text(service, "spec.loadBalancerIP")?);
    for entry in service.parts("status.loadBalancer.ingress")? {
        named.extend(fields::text(&entry, "ip")?);
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in named.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        match text.parse::<IpAddr>() {
            Ok(address) if addresses.contains(&address) => {}
            Ok(address) => addresses.push(address),
            Err(_) => place.warn(format!("{text:?} is not an IP address: correct it")),
        }
    }
    for address in addresses {
        if address.is_unspecified() {
            place.warn(format!(
                "{address} requests an address from a DHCP server, which Windlass does not do: name an address of a pool"
            ));
        } else if !writer.has(address) {
            place.warn(format!(
                "its address {address} is in no pool that was converted: add it to one, otherwise the Service gets another address"
            ));
        }
    }
    Ok(())
}
