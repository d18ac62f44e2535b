//! The only `unsafe` of the project: system calls that no safe wrapper offers.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use socket2::Socket;

/// Binds a packet socket to the interface of this index: it sends there, and receives frames of this Ethernet protocol from
/// now on (0: none).
pub(crate) fn bind_packet(socket: &Socket, protocol: i32, index: u32) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, for which all-zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_protocol = u16::try_from(protocol).map_err(io::Error::other)?.to_be();
    address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: `address` lives through the call and `length` is its size; the kernel copies it. The descriptor is open, as
    // `socket` owns it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the calling thread under SCHED_FIFO at this priority (1 to 99); threads it starts do not inherit it.
pub(crate) fn schedule_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives through the call; the kernel copies it. 0 means the calling thread.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
