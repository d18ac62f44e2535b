//! Programs that listen on the ports of controller and agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::inspect::problems::Problem;

/// Port of the controller as cloud-controller-manager.
const CLOUD_CONTROLLER_MANAGER: u16 = 10258;
/// Ports of the controller as cloud-controller-manager and as load balancer only, and of the agent.
const PORTS: [u16; 3] = [CLOUD_CONTROLLER_MANAGER, 9860, 9859];

/// Returns the [`PORTS`] on which a program listens, with its name, by the kernel's tables of TCP.
pub(super) fn listeners(tables: &str) -> Vec<(u16, String)> {
    let found = sockets(tables);
    if found.is_empty() {
        return Vec::new();
    }
    let mut programs: BTreeMap<u64, String> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let socket =
                target.to_str().and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(socket) = socket.filter(|socket| found.iter().any(|(_, one)| one == socket)) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                programs.insert(socket, name.trim().to_owned());
            }
        }
    }
    let named = |(port, socket): (u16, u64)| {
        let program = programs.get(&socket).cloned();
        (port, program.unwrap_or_else(|| "a program that is not seen from here".to_owned()))
    };
    let named: BTreeSet<(u16, String)> = found.into_iter().map(named).collect();
    named.into_iter().collect()
}

/// Ports and sockets that listen, of [`PORTS`].
fn sockets(tables: &str) -> Vec<(u16, u64)> {
    const LISTENS: &str = "0A";
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, socket, ..] = fields[..] else { return None };
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (state == LISTENS && PORTS.contains(&port)).then_some((port, socket.parse().ok()?))
    };
    tables.lines().filter_map(socket).collect()
}

/// Ports that another program has.
pub(super) fn findings(ports: &[(u16, String)]) -> impl Iterator<Item = Problem> {
    let taken = ports.iter().filter(|(_, program)| program != "windlass");
    taken.map(|(port, program)| {
        let (object, listens) = (format!("port {port}"), format!("{program} listens on TCP port {port}"));
        if *port == CLOUD_CONTROLLER_MANAGER {
            let message = format!("{listens}, which Windlass needs as cloud-controller-manager");
            Problem::warning("Host", object, "PortTaken").says(
                message,
                "install Windlass as load balancer only, or stop that program (docs/install.md)",
            )
        } else {
            let message = format!("{listens}, which Windlass needs");
            Problem::error("Host", object, "PortTaken")
                .says(message, "stop that program, or give Windlass another port (--secure-port)")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_on_windlass_ports_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:2812 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
            \x20  1: 0100007F:2812 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n\
            \x20  2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1\n\
            \x20  3: 00000000000000000000000000000000:2683 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4714 1\n\
            \x20  4: 0100007F:2684 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4715 1\nx\n";
        assert_eq!(sockets(table), [(10258, 4711), (9859, 4714), (9860, 4715)]);
    }
}
