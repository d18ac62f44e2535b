//! One process of `windlass vip` for a host: two would make the same tables, each as it wants them, and take the address from each other.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What the kernel keeps for each network namespace, and lets go with the process: an abstract Unix socket of this name.
pub(super) const NAME: &str = "windlass-vip";

/// Held as long as the process holds virtual IPs.
#[derive(Debug)]
pub(super) struct SoleProcess {
    /// None where the process may have no such socket: then nothing is known of others.
    _socket: Option<UnixDatagram>,
}

impl SoleProcess {
    /// `None` while another process has this name.
    pub(super) fn claim(name: &str) -> Option<Self> {
        let bound =
            SocketAddr::from_abstract_name(name).and_then(|address| UnixDatagram::bind_addr(&address));
        match bound {
            Ok(socket) => Some(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(_) => Some(Self { _socket: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_waits_until_the_first_has_ended() {
        let name = format!("windlass-vip-test-{}", std::process::id());
        let first = SoleProcess::claim(&name).unwrap();
        assert!(SoleProcess::claim(&name).is_none());
        drop(first);
        assert!(SoleProcess::claim(&name).is_some());
    }
}
