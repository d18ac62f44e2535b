//! Claim of a name by one process of a host: it holds an abstract Unix socket of that name, which the kernel keeps for each network
//! namespace and which goes with the process.
//!
//! Every process of the host may bind such a name. A claim of a user that is neither root nor this process's own counts as none: it is
//! passed over for the next of a few names, and reported. Root in a container without a user namespace of its own is root.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

mod owner;
#[cfg(test)]
mod tests;

use owner::{Owner, owner};

/// Number of names of a claim. While others hold them all, nothing is known of this host's other processes.
const NAMES: usize = 4;

/// Claim held while this process is the one of its host, or of the network namespace that the thread was in, that has this name.
#[derive(Debug)]
pub struct HostClaim {
    /// None where the process may have no such socket: then nothing is known of others.
    _socket: Option<UnixDatagram>,
    intruder: Option<Intruder>,
}

/// Another process of this host has the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("another process of this host has claimed it: stop that process")]
#[expect(clippy::exhaustive_structs, reason = "an answer")]
pub struct ClaimedByAnother;

/// A process that holds the name of a claim and is neither root's nor this process's user's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "an answer")]
pub struct Intruder {
    /// Its user; `None`: its socket cannot be asked.
    pub uid: Option<u32>,
}

impl fmt::Display for Intruder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.uid.map_or_else(|| "another user".to_owned(), |uid| format!("user {uid}"));
        write!(
            f,
            "a process of {user} holds a Unix socket (@windlass…) by which Windlass finds its own processes on this host; its claim is ignored. Find it (`ss -xap | grep @windlass`, also in pods with hostNetwork) and end it"
        )
    }
}

impl HostClaim {
    /// Claims the name, of at most 105 bytes. Refused while another process of root or of this process's user, or another claim of
    /// this one, has it.
    pub fn make(name: &str) -> Result<Self, ClaimedByAnother> {
        let (mut held, mut intruder) = (None, None);
        for ordinal in 0..NAMES {
            match bind(&name_of(name, ordinal)) {
                Ok(socket) => {
                    held = Some((ordinal, socket));
                    break;
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    intruder = pass_over(name, ordinal)?.or(intruder);
                }
                Err(_) => return Ok(Self { _socket: None, intruder }),
            }
        }
        let Some((own, socket)) = held else { return Ok(Self { _socket: None, intruder }) };
        // Another process may hold another of the names, for the sake of intruders that are gone, or that came and went meanwhile.
        for ordinal in (0..NAMES).filter(|ordinal| *ordinal != own) {
            intruder = pass_over(name, ordinal)?.or(intruder);
        }
        Ok(Self { _socket: Some(socket), intruder })
    }

    /// The process whose claim was ignored.
    pub fn intruder(&self) -> Option<Intruder> {
        self.intruder
    }

    /// Returns true if a process of this host, this one included, has this name.
    pub fn is_made(name: &str) -> bool {
        (0..NAMES).any(|ordinal| owner(&name_of(name, ordinal)) == Owner::Entitled)
    }
}

/// Returns the intruder that has the name of this number, if one has. Refused if an entitled process has it.
fn pass_over(name: &str, ordinal: usize) -> Result<Option<Intruder>, ClaimedByAnother> {
    match owner(&name_of(name, ordinal)) {
        Owner::Nobody => Ok(None),
        Owner::Entitled => Err(ClaimedByAnother),
        Owner::Intruder(intruder) => Ok(Some(intruder)),
    }
}

/// The names of a claim. The first is the one that versions before this one know.
fn name_of(name: &str, ordinal: usize) -> String {
    if ordinal == 0 { name.to_owned() } else { format!("{name}#{ordinal}") }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}
