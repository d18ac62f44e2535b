//! Services in an input: what they ask for by annotations of another program, and whether they keep their addresses.

use std::net::IpAddr;

use serde_json::Value;

use super::fields::{self, FieldError, origin};
use super::write::Writer;

/// What becomes of an annotation of another program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Becomes {
    /// An annotation of Windlass, of the same value.
    Ours(&'static str),
    /// The controller reads it, if it is told to.
    IsRead,
    /// Nothing; why, and what to do.
    Nothing(&'static str),
}

/// What another program reads of Services.
pub(super) struct Program {
    /// Annotations, and what becomes of them.
    pub(super) annotations: &'static [(&'static str, Becomes)],
    /// Annotations that name addresses.
    pub(super) addresses: &'static [&'static str],
    /// Its classes of load balancers.
    pub(super) classes: &'static [&'static str],
}

/// Looks at the Services, after all pools were printed.
pub(super) fn look(services: &[Value], program: &Program, writer: &mut Writer) {
    for service in services {
        let origin = origin(service);
        if let Err(error) = look_at(service, &origin, program, writer) {
            writer.warn(&origin, &error.to_string());
        }
    }
}

fn look_at(service: &Value, origin: &str, program: &Program, writer: &mut Writer) -> Result<(), FieldError> {
    if fields::text(service, "spec.type")? != Some("LoadBalancer") {
        return Ok(());
    }
    let class = fields::text(service, "spec.loadBalancerClass")?;
    let is_theirs = class.is_some_and(|class| program.classes.contains(&class));
    if let (Some(class), true) = (class, is_theirs) {
        let what = format!(
            "spec.loadBalancerClass is {class:?}, which Windlass does not serve and Kubernetes does not let you change: make the \
             Service again without it, or with windlass.dev/windlass, and name its addresses in windlass.dev/addresses"
        );
        writer.warn(origin, &what);
    } else if class.is_some() {
        return Ok(());
    }
    let annotations = fields::labels(service, "metadata.annotations")?;
    for (key, becomes) in program.annotations {
        let Some(value) = annotations.get(*key) else { continue };
        let what = match becomes {
            Becomes::Ours(ours) => format!("annotation {key} is not read; write {ours}: {value:?} instead"),
            Becomes::IsRead => {
                format!(
                    "annotation {key} is read only by a controller with --compat-annotations=true: set it, or write \
                     windlass.dev/addresses: {value:?}"
                )
            }
            Becomes::Nothing(why) => format!("annotation {key} has no like: {why}"),
        };
        writer.warn(origin, &what);
    }
    let mut named: Vec<&str> = Vec::new();
    for key in program.addresses {
        named.extend(annotations.get(*key).into_iter().flat_map(|value| value.split(',')));
    }
    named.extend(fields::text(service, "spec.loadBalancerIP")?);
    for entry in fields::list(service, "status.loadBalancer.ingress")? {
        named.extend(fields::text(entry, "ip")?);
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in named.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        match text.parse::<IpAddr>() {
            Ok(address) if addresses.contains(&address) => {}
            Ok(address) => addresses.push(address),
            Err(_) => writer.warn(origin, &format!("{text:?} is no address: correct it")),
        }
    }
    for address in addresses {
        if address.is_unspecified() {
            writer.warn(
                origin,
                &format!(
                    "{address} asks a DHCP server for an address, which Windlass does not: name one of a pool"
                ),
            );
        } else if !writer.has(address) {
            writer.warn(
                origin,
                &format!("its address {address} is in no pool that was converted: add it to one, or the Service gets another"),
            );
        }
    }
    Ok(())
}
