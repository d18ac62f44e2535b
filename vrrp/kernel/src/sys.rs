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

/// Most messages of one [`send_each`].
pub const MESSAGES: usize = 32;

/// Sends the first [`MESSAGES`] of these, each as a message of its own, in one call; returns how many
/// were sent. An error is that of the first; one of a later message ends the call and is returned by the next.
pub(crate) fn send_each(socket: &Socket, messages: &[&[u8]]) -> io::Result<usize> {
    // SAFETY: iovec and mmsghdr are plain data, for which all-zero (null pointers, no lengths) is a valid value.
    let (mut parts, mut headers): ([libc::iovec; MESSAGES], [libc::mmsghdr; MESSAGES]) =
        unsafe { mem::zeroed() };
    for ((message, part), header) in messages.iter().zip(&mut parts).zip(&mut headers) {
        part.iov_base = message.as_ptr().cast_mut().cast();
        part.iov_len = message.len();
        header.msg_hdr.msg_iov = &raw mut *part;
        header.msg_hdr.msg_iovlen = 1;
    }
    let count = libc::c_uint::try_from(messages.len().min(MESSAGES)).map_err(io::Error::other)?;
    // SAFETY: the first `count` headers each point to one part, and that to a message; all of them live through the call,
    // and the kernel only reads the messages. The descriptor is open, as `socket` owns it.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Puts the calling thread under SCHED_FIFO at this priority (1 to 99); threads it starts do not inherit it.
pub fn schedule_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives through the call; the kernel copies it. 0 means the calling thread.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
