//! Requests to route netlink.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REPLACE,
    NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator, Parseable,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::change::{Address, Change, Link};
use super::error::{NetlinkError, Refusal};
use super::socket::{Body, Frame, Socket, frames};

/// Room for the answers to [`BATCH`] orders, and for a dump.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Orders in one datagram. The kernel queues their answers, each some 800 bytes with its own share, before it returns:
/// they must fit into a receive buffer of net.core.rmem_default (212,992 bytes).
const BATCH: usize = 128;
/// The kernel answers before it returns from `send`: a longer silence is a fault.
pub(super) const ANSWER_TIMEOUT: TimeVal = TimeVal::new(5, 0);
/// Tries of a dump that changes interrupt.
const MAX_DUMP_ATTEMPTS: usize = 4;
/// Attribute of an extended acknowledgement: the kernel's message.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Length of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;
/// Offset of `rtm_type` in `struct rtmsg`.
const ROUTE_TYPE: usize = 7;

/// Length of `struct ndmsg`.
const NEIGHBOUR_HEADER: usize = 12;
/// NDA_LLADDR.
const LINK_LAYER_ADDRESS: u16 = 2;
/// Offset of `ndm_state` in `struct ndmsg`.
const NEIGHBOUR_STATE: usize = 8;
/// NUD_INCOMPLETE and NUD_FAILED: asked without an answer.
const UNREACHABLE: u16 = 0x01 | 0x20;
/// NUD_PROBE.
const BEING_ASKED: u16 = 0x10;
/// NUD_REACHABLE, and NUD_NOARP and NUD_PERMANENT, of which none is asked.
const ANSWERED: u16 = 0x02 | 0x40 | 0x80;

/// Result of a dump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump<T> {
    /// Entries in the order of the kernel.
    pub entries: Vec<T>,
    /// True if the kernel guarantees that nothing changed meanwhile. If not, an existing entry may be missing.
    pub(crate) consistent: bool,
}

/// A socket for requests.
///
/// The flags of a request are those of netlink(7): to add an address only if it is not there
/// `NLM_F_CREATE | NLM_F_EXCL`, to add or refresh it `NLM_F_CREATE | NLM_F_REPLACE`, to delete it 0.
pub struct RouteSocket {
    socket: Socket,
    sequence: u32,
}

impl RouteSocket {
    /// Opens it in the network namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || NetlinkError::io("open a netlink socket for requests");
        let socket = Socket::open(NETLINK_ROUTE, &[], RECEIVE_BUFFER).map_err(open())?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &ANSWER_TIMEOUT)
            .map_err(|errno| open()(errno.into()))?;
        // Since Linux 4.3 and 4.12. Without them answers are longer and have no words.
        let _ = socket.options().set_cap_ack(true);
        let _ = socket.options().set_ext_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and waits until the kernel has carried it out.
    pub fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), NetlinkError> {
        let answers = self.batch([(message, flags)])?;
        answers.into_iter().try_for_each(|answer| answer).map_err(NetlinkError::Refused)
    }

    /// Sends many requests, each with its flags, in few system calls. Returns one answer for each, in their order: a refused request
    /// does not keep the others from being carried out.
    ///
    /// # Errors
    /// If the answers cannot be received. The requests may or may not have been carried out.
    pub fn batch(
        &mut self,
        orders: impl IntoIterator<Item = (RouteNetlinkMessage, u16)>,
    ) -> Result<Vec<Result<(), Refusal>>, NetlinkError> {
        let mut answers = Vec::new();
        let mut orders = orders.into_iter().peekable();
        while orders.peek().is_some() {
            let mut datagram = Vec::new();
            let first = self.sequence.wrapping_add(1);
            for (message, flags) in orders.by_ref().take(BATCH) {
                self.sequence = self.sequence.wrapping_add(1);
                write(&mut datagram, message, flags | NLM_F_ACK, self.sequence);
            }
            let send = NetlinkError::io("send requests by netlink");
            self.socket.send(&datagram).map_err(send)?;
            answers.extend(self.answers(first, self.sequence.wrapping_sub(first))?);
        }
        Ok(answers)
    }

    /// Answers to the orders numbered `first` to `first + last`.
    fn answers(&mut self, first: u32, last: u32) -> Result<Vec<Result<(), Refusal>>, NetlinkError> {
        let mut answers = BTreeMap::new();
        while u32::try_from(answers.len()).is_ok_and(|answered| answered <= last) {
            for frame in frames(receive(&mut self.socket)?) {
                let frame = frame?;
                let number = frame.sequence.wrapping_sub(first);
                match frame.body {
                    // Others are late answers to orders that were given up.
                    Body::Answer(error, rest) if number <= last => {
                        answers.insert(number, answer(error, rest, frame.flags));
                    }
                    Body::Overrun => return Err(NetlinkError::AnswersLost),
                    Body::Answer(..) | Body::Done(_) | Body::Empty | Body::Message(..) => {}
                }
            }
        }
        Ok(answers.into_values().collect())
    }

    /// All interfaces, in the order of their indexes.
    pub fn links(&mut self) -> Result<Dump<Link>, NetlinkError> {
        let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.dump_as(&all, |kind, payload| {
            changes(kind, payload).map(|change| match change {
                Some(Change::Link(link)) => Some(link),
                Some(Change::LinkGone(_) | Change::Address(_) | Change::AddressGone(_)) | None => None,
            })
        })
    }

    /// All addresses of this family (`Unspec`: of both), an interface's in the kernel's order: of IPv4 the primary first.
    pub fn addresses(&mut self, family: AddressFamily) -> Result<Dump<Address>, NetlinkError> {
        let mut all = AddressMessage::default();
        all.header.family = family;
        self.dump_as(&RouteNetlinkMessage::GetAddress(all), |kind, payload| {
            changes(kind, payload).map(|change| match change {
                Some(Change::Address(address)) => Some(address),
                Some(Change::AddressGone(_) | Change::Link(_) | Change::LinkGone(_)) | None => None,
            })
        })
    }

    /// Returns the source address that the kernel would use to reach `far`; `None` if there is no route.
    pub(crate) fn source_towards(&mut self, far: IpAddr) -> Result<Option<IpAddr>, NetlinkError> {
        // No answer: there is no way, or one that is forbidden.
        let answer = self.ask(RouteNetlinkMessage::GetRoute(towards(far)), preferred_source)?;
        Ok(answer.flatten())
    }

    /// Returns true if a host of this interface's LAN was present at the kernel's last probe, and has the kernel probe it again,
    /// three times in as many seconds. `None` if the kernel does not know the host; before Linux 5.0 it knows none.
    pub fn is_reachable(&mut self, interface: u32, host: IpAddr) -> Result<Option<bool>, NetlinkError> {
        let Some(state) = self.neighbour_state(interface, host)? else { return Ok(None) };
        if state & (UNREACHABLE | BEING_ASKED) == 0 {
            self.ask_known_host(interface, host)?;
        }
        Ok(Some(state & UNREACHABLE == 0))
    }

    /// Has the kernel probe a host of this interface's LAN immediately, even if a probe is under way.
    pub fn ask_host(&mut self, interface: u32, host: IpAddr) -> Result<(), NetlinkError> {
        let state = self.neighbour_state(interface, host)?;
        if state.is_some_and(|state| state & UNREACHABLE == 0) {
            return self.ask_known_host(interface, host);
        }
        let mut message = neighbour(interface, host);
        message.header.flags = NeighbourFlags::Use;
        self.batch([(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)]).map(drop)
    }

    /// Returns true if the host has answered the probe of [`Self::ask_host`].
    pub fn has_answered(&mut self, interface: u32, host: IpAddr) -> Result<bool, NetlinkError> {
        let state = self.neighbour_state(interface, host)?;
        Ok(state.is_some_and(|state| state & ANSWERED != 0))
    }

    /// NUD_… of a host that the kernel knows.
    fn neighbour_state(&mut self, interface: u32, host: IpAddr) -> Result<Option<u16>, NetlinkError> {
        self.ask(RouteNetlinkMessage::GetNeighbour(neighbour(interface, host)), |payload| {
            let state = payload.get(NEIGHBOUR_STATE..NEIGHBOUR_STATE + 2).and_then(<[u8]>::first_chunk);
            state.map_or(0, |state| u16::from_ne_bytes(*state))
        })
    }

    /// The link-layer address of a host, as far as the kernel knows it.
    pub fn link_layer_address(
        &mut self,
        interface: u32,
        host: IpAddr,
    ) -> Result<Option<[u8; 6]>, NetlinkError> {
        let read = |payload: &[u8]| {
            let state =
                payload.get(NEIGHBOUR_STATE..)?.first_chunk().map(|state| u16::from_ne_bytes(*state))?;
            let mut attributes = NlasIterator::new(payload.get(NEIGHBOUR_HEADER..)?).filter_map(Result::ok);
            let address = attributes.find(|attribute| attribute.kind() == LINK_LAYER_ADDRESS)?;
            address.value().try_into().ok().filter(|_| state & UNREACHABLE == 0)
        };
        let found = self.ask(RouteNetlinkMessage::GetNeighbour(neighbour(interface, host)), read)?;
        Ok(found.flatten())
    }

    fn ask_known_host(&mut self, interface: u32, host: IpAddr) -> Result<(), NetlinkError> {
        // Only what becomes another state has the kernel ask at once. Refused if the kernel has forgotten it since.
        let states = [NeighbourState::Stale, NeighbourState::Probe].map(|state| {
            let mut message = neighbour(interface, host);
            message.header.state = state;
            (RouteNetlinkMessage::NewNeighbour(message), NLM_F_REPLACE)
        });
        self.batch(states).map(drop)
    }

    /// The rules by which the kernel chooses routing tables. Rules that cannot be read are left out.
    pub fn rules(&mut self) -> Result<Vec<RuleMessage>, NetlinkError> {
        let all = RouteNetlinkMessage::GetRule(RuleMessage::default());
        Ok(self.dump_as(&all, |_, payload| Ok(RuleMessage::parse(payload).ok()))?.entries)
    }

    /// Sends one request and reads the answer; `None` if the kernel has none.
    pub(super) fn ask<T>(
        &mut self,
        question: RouteNetlinkMessage,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let mut datagram = Vec::new();
        write(&mut datagram, question, 0, sequence);
        self.socket.send(&datagram).map_err(NetlinkError::io("ask a question by netlink"))?;
        loop {
            for frame in frames(receive(&mut self.socket)?) {
                let frame = frame?;
                match frame.body {
                    Body::Overrun => return Err(NetlinkError::AnswersLost),
                    // Others are late answers to what was given up.
                    _ if frame.sequence != sequence => {}
                    Body::Message(_, payload) => return Ok(Some(read(payload))),
                    Body::Answer(..) | Body::Done(_) => return Ok(None),
                    Body::Empty => {}
                }
            }
        }
    }

    pub(super) fn dump_as<T>(
        &mut self,
        message: &RouteNetlinkMessage,
        read: impl Fn(u16, &[u8]) -> Result<Option<T>, NetlinkError>,
    ) -> Result<Dump<T>, NetlinkError> {
        let mut dump = self.dump_once(message, &read)?;
        for _ in 1..MAX_DUMP_ATTEMPTS {
            if dump.consistent {
                break;
            }
            dump = self.dump_once(message, &read)?;
        }
        Ok(dump)
    }

    fn dump_once<T>(
        &mut self,
        message: &RouteNetlinkMessage,
        read: impl Fn(u16, &[u8]) -> Result<Option<T>, NetlinkError>,
    ) -> Result<Dump<T>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let mut datagram = Vec::new();
        write(&mut datagram, message.clone(), NLM_F_DUMP, sequence);
        self.socket.send(&datagram).map_err(NetlinkError::io("ask for a dump by netlink"))?;
        let mut dump = Dump { entries: Vec::new(), consistent: true };
        // An unreadable message is told when the dump has ended: its rest must not be taken for the next answer.
        let mut outcome = Ok(());
        loop {
            for frame in frames(receive(&mut self.socket)?) {
                let frame = frame?;
                if frame.sequence != sequence {
                    continue;
                }
                match take(&frame, &read, &mut dump) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(Ok(()))) => return outcome.map(|()| dump),
                    Ok(ControlFlow::Break(Err(refusal))) => return Err(refusal.into()),
                    Err(error) => outcome = Err(error),
                }
            }
        }
    }
}

/// Processes a frame of a dump; `Break` with the result of the dump.
fn take<T>(
    frame: &Frame<'_>,
    read: impl Fn(u16, &[u8]) -> Result<Option<T>, NetlinkError>,
    dump: &mut Dump<T>,
) -> Result<ControlFlow<Result<(), Refusal>>, NetlinkError> {
    dump.consistent &= frame.flags & NLM_F_DUMP_INTR == 0;
    match frame.body {
        Body::Message(kind, payload) => dump.entries.extend(read(kind, payload)?),
        Body::Done(error) => return Ok(ControlFlow::Break(answer(error, &[], 0))),
        Body::Answer(error, rest) => return Ok(ControlFlow::Break(answer(error, rest, frame.flags))),
        Body::Overrun => return Err(NetlinkError::AnswersLost),
        Body::Empty => {}
    }
    Ok(ControlFlow::Continue(()))
}

/// Names a host of an interface's LAN.
fn neighbour(interface: u32, host: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = interface;
    let (family, address) = match host {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    message.header.family = family;
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}

/// Request for the route of packets to this address.
pub(super) fn towards(far: IpAddr) -> RouteMessage {
    let mut message = RouteMessage::default();
    let (family, length, address) = match far {
        IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
    };
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.attributes.push(RouteAttribute::Destination(address));
    message
}

/// RTA_PREFSRC of a route that leads somewhere.
fn preferred_source(payload: &[u8]) -> Option<IpAddr> {
    if payload.get(ROUTE_TYPE) != Some(&libc::RTN_UNICAST) {
        return None;
    }
    let mut attributes = NlasIterator::new(payload.get(ROUTE_HEADER..)?).filter_map(Result::ok);
    let source = attributes.find(|attribute| attribute.kind() == libc::RTA_PREFSRC)?;
    let v4 = || <[u8; 4]>::try_from(source.value()).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(source.value()).ok().map(IpAddr::from);
    v4().or_else(v6)
}

fn changes(kind: u16, payload: &[u8]) -> Result<Option<Change>, NetlinkError> {
    Change::parse(kind, payload).map_err(|error| NetlinkError::Malformed(error.to_string()))
}

pub(super) fn receive(socket: &mut Socket) -> Result<&[u8], NetlinkError> {
    socket.receive().map_err(|source| match source.raw_os_error() {
        Some(libc::ENOBUFS) => NetlinkError::AnswersLost,
        _ if source.kind() == io::ErrorKind::WouldBlock => NetlinkError::AnswersLost,
        _ => NetlinkError::io("receive answers by netlink")(source),
    })
}

/// Appends a request to a datagram.
fn write(datagram: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16, sequence: u32) {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let start = datagram.len();
    datagram.resize(start.saturating_add(request.buffer_len().next_multiple_of(4)), 0);
    request.serialize(&mut datagram[start..]);
}

/// Reads an acknowledgement: error number, the request or its header, and attributes.
fn answer(error: i32, rest: &[u8], flags: u16) -> Result<(), Refusal> {
    if error == 0 {
        return Ok(());
    }
    Err(Refusal { errno: Errno::from_raw(error.saturating_neg()), message: words(rest, flags) })
}

fn words(rest: &[u8], flags: u16) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = rest.first_chunk().map(|length| u32::from_ne_bytes(*length))?;
    let echoed = if flags & NLM_F_CAPPED == 0 { usize::try_from(request).ok()? } else { 16 };
    let attributes = rest.get(echoed.next_multiple_of(4)..)?;
    let mut attributes = NlasIterator::new(attributes).filter_map(Result::ok);
    let message = attributes.find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)?;
    let text = String::from_utf8_lossy(message.value());
    Some(text.trim_end_matches('\0').to_owned())
}
