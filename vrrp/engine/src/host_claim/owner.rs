//! The user of the process that holds an abstract Unix socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use super::Intruder;

/// The holder of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Nobody,
    /// Root, the user of this process, or a user that the kernel does not name (`CONFIG_UNIX_DIAG`).
    Entitled,
    Intruder(Intruder),
}

/// Finds the holder of a name.
pub(super) fn owner(name: &str) -> Owner {
    let Ok(asking) = UnixDatagram::unbound() else { return Owner::Entitled };
    let connected = SocketAddr::from_abstract_name(name).and_then(|address| asking.connect_addr(&address));
    match connected.as_ref().err().and_then(io::Error::raw_os_error).map(Errno::from_raw) {
        None if connected.is_ok() => {}
        Some(Errno::ECONNREFUSED) => return Owner::Nobody,
        // It is connected itself, which a claim never is.
        Some(Errno::EPERM) => return Owner::Intruder(Intruder { uid: None }),
        None | Some(_) => return Owner::Entitled,
    }
    match users(&asking) {
        Ok((own, holder)) if holder != 0 && holder != own => Owner::Intruder(Intruder { uid: Some(holder) }),
        Ok(_) | Err(_) => Owner::Entitled,
    }
}

/// The users of this socket and of the one that it is connected to.
fn users(asking: &UnixDatagram) -> io::Result<(u32, u32)> {
    let own = File::from(asking.as_fd().try_clone_to_owned()?).metadata()?;
    let socket = Socket::new(NETLINK_SOCK_DIAG)?;
    let inode = u32::try_from(own.ino()).map_err(io::Error::other)?;
    let peer = ask(&socket, inode, SHOW_PEER, PEER)?;
    Ok((own.uid(), ask(&socket, peer, SHOW_UID, UID)?))
}

// linux/unix_diag.h
const SHOW_PEER: u32 = 4;
const SHOW_UID: u32 = 0x40;
const PEER: u16 = 2;
const UID: u16 = 7;
// linux/netlink.h, linux/sock_diag.h
const REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const HEADER: usize = 16;
/// Header of the answer and `struct unix_diag_msg`.
const FIXED: usize = HEADER + 16;

/// Asks for an attribute, a number, of the Unix socket with this inode. The kernel answers while it is asked.
fn ask(socket: &Socket, inode: u32, show: u32, attribute: u16) -> io::Result<u32> {
    let mut request = Vec::with_capacity(HEADER + 24);
    request.extend(40_u32.to_ne_bytes());
    request.extend([SOCK_DIAG_BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    request.extend([0; 8]);
    // `struct unix_diag_req`: family, protocol, padding; states; inode; attributes; any cookie.
    request.extend([1, 0, 0, 0]);
    request.extend([u32::MAX, inode, show, u32::MAX, u32::MAX].map(u32::to_ne_bytes).concat());
    send(socket.as_raw_fd(), &request, MsgFlags::MSG_DONTWAIT)?;
    let mut answer = [0; 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    number(answer.get(..length).unwrap_or_default(), attribute)
        .ok_or_else(|| io::Error::other("the kernel does not say"))
}

/// An attribute of the answer.
fn number(answer: &[u8], attribute: u16) -> Option<u32> {
    if answer.get(4..6)? != SOCK_DIAG_BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let mut rest = answer.get(FIXED..)?;
    loop {
        let (&[l0, l1, k0, k1], value) = rest.split_first_chunk()?;
        if u16::from_ne_bytes([k0, k1]) == attribute {
            return value.first_chunk().map(|value| u32::from_ne_bytes(*value));
        }
        let length = usize::from(u16::from_ne_bytes([l0, l1])).max(4);
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}
