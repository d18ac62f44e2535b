//! One VRID, one process of a host: two that send from one address with one VRID would be one router to all others, which obey either.
//! What a process sends does not come back to the host, so neither would hear of the other.
//!
//! Who uses a VRID holds an abstract Unix socket of its name, which the kernel keeps for each network namespace and which goes with the
//! process.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use windlass_vrrp::{Family, Vrid};

/// Held as long as the VRID is used.
#[derive(Debug)]
pub(crate) struct VridClaim {
    /// None where the process may have no such socket: then nothing is known of others.
    _socket: Option<UnixDatagram>,
}

/// Another process of this host uses the VRID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClaimedByAnother;

impl VridClaim {
    /// For the virtual router of this VRID whose adverts go to this group.
    pub(crate) fn make(
        interface: &str,
        family: Family,
        group: Option<IpAddr>,
        vrid: Vrid,
    ) -> Result<Self, ClaimedByAnother> {
        let bound = SocketAddr::from_abstract_name(name(interface, family, group, vrid))
            .and_then(|address| UnixDatagram::bind_addr(&address));
        match bound {
            Ok(socket) => Ok(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(ClaimedByAnother),
            Err(_) => Ok(Self { _socket: None }),
        }
    }
}

/// Whether a process of this host, this one included, uses the VRID.
pub(crate) fn is_claimed(interface: &str, family: Family, group: Option<IpAddr>, vrid: Vrid) -> bool {
    let connected = SocketAddr::from_abstract_name(name(interface, family, group, vrid))
        .and_then(|address| UnixDatagram::unbound()?.connect_addr(&address));
    connected.is_ok()
}

/// Other groups have VRIDs of their own.
fn name(interface: &str, family: Family, group: Option<IpAddr>, vrid: Vrid) -> String {
    let group = group.map_or_else(|| "unicast".to_owned(), |group| group.to_string());
    format!("windlass-vrrp/{interface}/{family}/{group}/{}", vrid.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vrid_is_claimed_once_until_it_is_let_go_of() {
        let vrid = Vrid::new(7).unwrap();
        let group = |last| Some(IpAddr::from([224, 0, 0, last]));
        let interface = format!("claim-{}", std::process::id());
        let claim = |last| VridClaim::make(&interface, Family::V4, group(last), vrid);
        let is_known = |last| is_claimed(&interface, Family::V4, group(last), vrid);
        assert!(!is_known(18));
        let held = claim(18).unwrap();
        assert!(is_known(18) && !is_known(19));
        assert_eq!(claim(18).unwrap_err(), ClaimedByAnother);
        claim(19).unwrap();
        assert!(!is_known(19), "let go of");
        drop(held);
        claim(18).unwrap();
    }
}
