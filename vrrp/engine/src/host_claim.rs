//! One process of a host for something: it holds an abstract Unix socket of its name, which the kernel keeps for each network namespace and
//! which goes with the process.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Held as long as this process is the one of its host, or of the network namespace that the thread was in, which has this name.
#[derive(Debug)]
pub struct HostClaim {
    /// None where the process may have no such socket: then nothing is known of others.
    _socket: Option<UnixDatagram>,
}

/// Another process of this host has the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("another process of this host has claimed it: end that one")]
#[expect(clippy::exhaustive_structs, reason = "an answer")]
pub struct ClaimedByAnother;

impl HostClaim {
    /// Refused while another process, or another claim of this one, has this name: at most 107 bytes.
    pub fn make(name: &str) -> Result<Self, ClaimedByAnother> {
        let bound =
            SocketAddr::from_abstract_name(name).and_then(|address| UnixDatagram::bind_addr(&address));
        match bound {
            Ok(socket) => Ok(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(ClaimedByAnother),
            Err(_) => Ok(Self { _socket: None }),
        }
    }

    /// Whether a process of this host, this one included, has this name.
    pub fn is_made(name: &str) -> bool {
        let connected = SocketAddr::from_abstract_name(name)
            .and_then(|address| UnixDatagram::unbound()?.connect_addr(&address));
        connected.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_claimed_once_until_it_is_let_go_of() {
        let name = format!("windlass-test-{}", std::process::id());
        assert!(!HostClaim::is_made(&name));
        let first = HostClaim::make(&name).unwrap();
        assert!(HostClaim::is_made(&name));
        assert_eq!(HostClaim::make(&name).unwrap_err(), ClaimedByAnother);
        drop(first);
        assert!(!HostClaim::is_made(&name));
        HostClaim::make(&name).unwrap();
    }
}
