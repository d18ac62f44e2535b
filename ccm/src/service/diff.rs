//! Which changes of a Service concern its load balancer.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

/// Returns true if the change from `old` to `new` requires another ensure or a clean-up (service-contract S-10; S-11 lists the changes that
/// do not). `wants` is [`super::select::wants_lb`] with the provider's classes.
pub(crate) fn needs_update(old: &Service, new: &Service, wants: impl Fn(&Service) -> bool) -> bool {
    let (wanted, wants) = (wants(old), wants(new));
    if wanted != wants {
        return true;
    }
    if !wants {
        return false;
    }
    let none = ServiceSpec::default();
    let (was, is) = (old.spec.as_ref().unwrap_or(&none), new.spec.as_ref().unwrap_or(&none));
    old.metadata.uid != new.metadata.uid
        || !same_map(old.metadata.annotations.as_ref(), new.metadata.annotations.as_ref())
        || list(was.load_balancer_source_ranges.as_ref()) != list(is.load_balancer_source_ranges.as_ref())
        || !same_ports(list(was.ports.as_ref()), list(is.ports.as_ref()))
        || was.session_affinity != is.session_affinity
        || was.session_affinity_config != is.session_affinity_config
        || text(was.load_balancer_ip.as_ref()) != text(is.load_balancer_ip.as_ref())
        || list(was.external_ips.as_ref()) != list(is.external_ips.as_ref())
        || was.external_traffic_policy != is.external_traffic_policy
        || was.health_check_node_port.unwrap_or(0) != is.health_check_node_port.unwrap_or(0)
        || list(was.ip_families.as_ref()).len() != list(is.ip_families.as_ref()).len()
}

fn same_ports(old: &[ServicePort], new: &[ServicePort]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|(was, is)| {
            text(was.name.as_ref()) == text(is.name.as_ref())
                && was.protocol == is.protocol
                && was.port == is.port
                && was.node_port.unwrap_or(0) == is.node_port.unwrap_or(0)
                && was.target_port == is.target_port
                && was.app_protocol == is.app_protocol
        })
}

/// Absent and empty are the same to the API server.
fn list<T>(items: Option<&Vec<T>>) -> &[T] {
    items.map_or(&[], Vec::as_slice)
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

fn same_map<T: Default + PartialEq>(old: Option<&T>, new: Option<&T>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old == new,
        (Some(one), None) | (None, Some(one)) => *one == T::default(),
        (None, None) => true,
    }
}
