//! The bridges of containers and virtual machines outside Kubernetes (Docker's, Podman's, libvirt's). Agents report them, so that an
//! Announcement can name them; but they have the same subnets on every node, and no address there is a node's.

use windlass_api::{DEFAULT_EXCLUDED_INTERFACES, InterfaceInfo};

/// Returns true if the addresses of an interface that a node reports may be the same on every node.
pub fn is_inside_the_node(interface: &InterfaceInfo) -> bool {
    interface.isolated || is_container_bridge(&interface.name)
}

/// Returns true if the interface is such a bridge, by its name: one that an Announcement excludes by default.
pub fn is_container_bridge(name: &str) -> bool {
    DEFAULT_EXCLUDED_INTERFACES.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    })
}

/// Interfaces of Kubernetes' own pod networking, by the beginning of their names: they carry pods' addresses, and nobody is to
/// announce there.
const OF_PODS: &[&str] = &["cni", "veth", "kube-", "cali", "flannel", "cilium", "lxc", "nodelocaldns"];

/// Returns true for the name of an interface of Kubernetes' pod network, which agents do not report.
pub fn is_of_pods(name: &str) -> bool {
    OF_PODS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_of_containers_and_virtual_machines_are_told_by_their_names() {
        for name in ["docker0", "docker_gwbridge", "podman0", "virbr0", "virbr1-nic"] {
            assert!(is_container_bridge(name), "{name}");
        }
        for name in ["eth0", "br0", "br-lan", "cni0", "lo", "my-docker0"] {
            assert!(!is_container_bridge(name), "{name}");
        }
    }

    /// Only a `*` at the end is understood here.
    #[test]
    fn the_patterns_are_beginnings_of_names() {
        for pattern in DEFAULT_EXCLUDED_INTERFACES {
            assert!(!pattern.trim_end_matches('*').contains(['*', '?', '[']), "{pattern}");
        }
    }
}
