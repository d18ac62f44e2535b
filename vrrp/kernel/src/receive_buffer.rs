//! Room for what comes in while the engine is not run.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};

/// Gives a socket a receive buffer of about this many bytes: beyond net.core.rmem_max only with CAP_NET_ADMIN, else as much
/// as that allows.
pub fn enlarge(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        setsockopt(socket, sockopt::RcvBuf, &bytes)?;
    }
    Ok(())
}
