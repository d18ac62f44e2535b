//! Speed of an interface, by the generic netlink family `ethtool` (Linux 5.6): `linux/ethtool_netlink.h`, `linux/genetlink.h`.

use netlink_packet_core::{NLM_F_REQUEST, NlasIterator};
use netlink_sys::protocols::NETLINK_GENERIC;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use super::error::{NetlinkError, Refusal};
use super::route::{ANSWER_TIMEOUT, receive};
use super::socket::{Body, Socket, frames};

/// The answers are short.
const RECEIVE_BUFFER: usize = 1 << 16;
/// Length of `struct nlmsghdr`.
const MESSAGE_HEADER: usize = 16;
/// Length of `struct genlmsghdr`.
const GENERIC_HEADER: usize = 4;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;
const ETHTOOL_A_LINKMODES_HEADER: u16 = 1;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const NLA_F_NESTED: u16 = 0x8000;
/// Value from drivers that do not know the speed.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// A socket for requests, in the network namespace of the thread that opened it.
pub(crate) struct EthtoolSocket {
    socket: Socket,
    sequence: u32,
    family: u16,
}

impl EthtoolSocket {
    /// Opens it; refused where the kernel has no such family.
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        let open = || NetlinkError::io("open a netlink socket for questions about links");
        let socket = Socket::open(NETLINK_GENERIC, &[], RECEIVE_BUFFER).map_err(open())?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &ANSWER_TIMEOUT)
            .map_err(|errno| open()(errno.into()))?;
        let mut ethtool = Self { socket, sequence: 0, family: GENL_ID_CTRL };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"ethtool\0");
        let family = ethtool.ask(CTRL_CMD_GETFAMILY, &name, |payload| {
            value(payload, CTRL_ATTR_FAMILY_ID).map(u16::from_ne_bytes)
        })?;
        let malformed = || NetlinkError::Malformed("a family of generic netlink without a number".to_owned());
        ethtool.family = family.ok_or_else(malformed)?;
        Ok(ethtool)
    }

    /// Returns the speed of the interface of this index in Mbit/s; `None` if it is unknown, as for virtual ones.
    pub(crate) fn speed(&mut self, index: u32) -> Result<Option<u32>, NetlinkError> {
        let device = attribute(ETHTOOL_A_HEADER_DEV_INDEX, &index.to_ne_bytes());
        let header = attribute(ETHTOOL_A_LINKMODES_HEADER | NLA_F_NESTED, &device);
        match self.ask(ETHTOOL_MSG_LINKMODES_GET, &header, speed) {
            // Its driver cannot tell, or it has gone.
            Err(NetlinkError::Refused(Refusal { errno: Errno::EOPNOTSUPP | Errno::ENODEV, .. })) => Ok(None),
            answer => answer,
        }
    }

    /// Asks, and reads the attributes of the answer.
    fn ask<T>(
        &mut self,
        command: u8,
        attributes: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let question = question(self.family, command, self.sequence, attributes);
        self.socket.send(&question).map_err(NetlinkError::io("ask about a link by netlink"))?;
        loop {
            for frame in frames(receive(&mut self.socket)?) {
                let frame = frame?;
                match frame.body {
                    Body::Overrun => return Err(NetlinkError::AnswersLost),
                    // Late answers to what was given up.
                    _ if frame.sequence != self.sequence => {}
                    Body::Message(_, payload) => {
                        return Ok(read(payload.get(GENERIC_HEADER..).unwrap_or_default()));
                    }
                    Body::Answer(error, _) if error != 0 => {
                        let errno = Errno::from_raw(error.saturating_neg());
                        return Err(Refusal { errno, message: None }.into());
                    }
                    Body::Answer(..) | Body::Done(_) => return Ok(None),
                    Body::Empty => {}
                }
            }
        }
    }
}

/// A message with these attributes.
fn question(family: u16, command: u8, sequence: u32, attributes: &[u8]) -> Vec<u8> {
    let length = const { MESSAGE_HEADER + GENERIC_HEADER }.saturating_add(attributes.len());
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // To the kernel, by whoever owns the socket.
    message.extend([0; 4]);
    // The version of the family.
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len().saturating_add(4);
    let mut attribute = Vec::with_capacity(length.next_multiple_of(4));
    attribute.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

/// The first bytes of the value of the first attribute of this kind.
fn value<const N: usize>(attributes: &[u8], kind: u16) -> Option<[u8; N]> {
    let mut all = NlasIterator::new(attributes).filter_map(Result::ok);
    all.find(|attribute| attribute.kind() == kind)?.value().first_chunk().copied()
}

/// ETHTOOL_A_LINKMODES_SPEED, if it is known.
fn speed(attributes: &[u8]) -> Option<u32> {
    let speed = value(attributes, ETHTOOL_A_LINKMODES_SPEED).map(u32::from_ne_bytes);
    speed.filter(|speed| !matches!(*speed, 0 | SPEED_UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::super::RouteSocket;
    use super::*;
    use crate::lab::{add_interface, in_namespace};

    #[test]
    fn a_speed_is_read_if_it_is_known() {
        let rows = [
            (attribute(ETHTOOL_A_LINKMODES_SPEED, &25_000_u32.to_ne_bytes()), Some(25_000)),
            (attribute(ETHTOOL_A_LINKMODES_SPEED, &u32::MAX.to_ne_bytes()), None),
            (attribute(ETHTOOL_A_LINKMODES_SPEED, &[0; 4]), None),
            (attribute(ETHTOOL_A_LINKMODES_SPEED, &[1, 2]), None),
            (attribute(ETHTOOL_A_LINKMODES_HEADER, &[0; 8]), None),
            (vec![9, 0], None),
            (Vec::new(), None),
        ];
        for (bytes, expected) in rows {
            assert_eq!(speed(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_kernel_tells_a_veths_speed_and_of_a_loopback_and_of_none_that_it_is_not_known() {
        in_namespace(|| {
            let mut route = RouteSocket::open().unwrap();
            let index = add_interface(&mut route, "d0");
            let mut ethtool = EthtoolSocket::open().unwrap();
            assert_eq!(ethtool.speed(index).unwrap(), Some(10_000));
            assert_eq!(ethtool.speed(1).unwrap(), None);
            assert_eq!(ethtool.speed(4711).unwrap(), None);
        });
    }
}
