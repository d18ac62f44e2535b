//! Hosts and links of the racks of a control plane (`racks.rs`).

use std::{fmt::Write as _, net::Ipv4Addr};

use crate::{
    rack_networks::{bridge, gateway},
    topology::{Host, Role},
};

pub(crate) const CORE: &str = "core";
const CORE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const LEAVES: [&str; 2] = ["leaf1", "leaf2"];

/// Moves the nodes of the control plane to the racks, and adds the routers.
pub(crate) fn hosts(mut hosts: Vec<Host>) -> Vec<Host> {
    let nodes = hosts.iter_mut().filter(|host| host.role == Role::ControlPlaneNode);
    let mut nodes: Vec<&mut Host> = nodes.collect();
    let last = nodes.len().saturating_sub(1);
    for (number, node) in nodes.iter_mut().enumerate() {
        let [.., octet] = node.address.octets();
        node.address = Ipv4Addr::new(198, 18, if number == last { 2 } else { 1 }, octet);
    }
    let router = |name: &str, address| Host { name: name.to_owned(), role: Role::Router, address };
    hosts.push(router(CORE, CORE_ADDRESS));
    hosts.extend((11..).zip(LEAVES).map(|(last, leaf)| router(leaf, Ipv4Addr::new(198, 18, 0, last))));
    hosts
}

/// The shell script (`sh -e`) that connects routers and racks, after that of the topology.
pub(crate) fn script(hosts: &[Host]) -> String {
    let mut script = String::new();
    let routers = hosts.iter().filter(|host| host.role == Role::Router);
    for (network, Host { name, address, .. }) in (0..).zip(routers) {
        let (bridge, gateway) = (bridge(network), gateway(network));
        let _ = write!(
            script,
            "ip -n lan link add r-{name} type veth peer name rack netns {name}\n\
             ip -n lan link set r-{name} master {bridge} up\n\
             ip -n {name} addr add {gateway}/24 dev rack\n\
             ip -n {name} link set rack up\n\
             nsenter --net=/run/netns/{name} sh -ec 'cd /proc/sys/net/ipv4; echo 1 >ip_forward\n\
             echo 1 >fib_multipath_hash_policy\n\
             for one in all default eth0 rack; do echo 0 >conf/$one/send_redirects; echo 0 >conf/$one/rp_filter; done\n\
             # Routers with the same seed would all choose the path of the same number.\n\
             [ ! -e fib_multipath_hash_seed ] || echo {} >fib_multipath_hash_seed'\n",
            network + 1
        );
        if network > 0 {
            let _ = write!(
                script,
                "ip -n {name} route add default via {}\n\
                 ip -n {CORE} route add 198.18.{network}.0/24 via {address}\n",
                self::gateway(0)
            );
        }
    }
    for user in hosts.iter().filter(|host| matches!(host.role, Role::ControlPlane | Role::Client)) {
        let _ = writeln!(script, "ip -n {} route add default via {CORE_ADDRESS}", user.name);
    }
    script
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        rack_networks::{VIP, network},
        topology,
    };

    #[test]
    fn all_nodes_but_the_last_are_in_the_first_rack_and_each_address_is_one_hosts() {
        let hosts = hosts(topology::hosts(0, 3, 0, &["c1".into()]).unwrap());
        let of_nodes = hosts.iter().filter(|host| host.role == Role::ControlPlaneNode);
        let networks: Vec<_> = of_nodes.map(|host| network(host.address)).collect();
        assert_eq!(networks, [Some(1), Some(1), Some(2)]);
        let mut addresses: BTreeSet<Ipv4Addr> = (0..3).map(gateway).chain([VIP]).collect();
        for host in &hosts {
            assert!(addresses.insert(host.address), "{host:?}");
        }
    }
}
