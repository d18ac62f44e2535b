//! Bridges whose packets pass the packet filter: what virtual machines on them send to a virtual IP meets this node's kube-proxy.

use std::fs;
use std::path::Path;

use windlass_common::listing::first_of;
use windlass_node::agent::is_containers;

use super::Host;
use crate::inspect::problems::Problem;

/// Reads which of the interfaces below `root` (`/sys/class/net`) are bridges of the admin: those of container networks are left out.
pub(super) fn read(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let bridges = entries.filter(|entry| entry.path().join("bridge").is_dir());
    let names = bridges.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !is_containers(name)).collect();
    names.sort();
    names
}

pub(super) fn findings(host: &Host) -> Option<Problem> {
    (host.filters_bridged && !host.bridges.is_empty()).then(|| {
        let message = format!(
            "net.bridge.bridge-nf-call-iptables is 1, and {} is a bridge: what its virtual machines send to a virtual IP of another node is \
             translated by kube-proxy here, and dropped if externalTrafficPolicy is Local and no pod is on this node. If the bridge carries \
             the node's own address, what comes for a virtual IP here and is for a pod on another node is dropped",
            first_of(host.bridges.iter(), 3)
        );
        Problem::warning("Host", "bridge-nf-call-iptables", "BridgedPackets").says(
            message,
            "sysctl -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 if the CNI plugin needs neither (those \
             with a bridge of their own, as flannel, do); else put the machines on a macvtap (docs/troubleshooting.md)",
        )
    })
}
