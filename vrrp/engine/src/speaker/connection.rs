//! A session with its connection.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags};
use windlass_bgp::session::{DownReason, Event as Output, NextHops};
use windlass_bgp::units::Random;
use windlass_bgp::wire::Notification;
use windlass_bgp::{Session, State, Time};
use windlass_kernel::interfaces::HostAddresses;
use windlass_kernel::tcp::{Dial, TcpConnection};

use super::config::{PeerConfig, Routes};
use super::plan;
use super::status::{SessionId, SessionStatus};
use crate::bfd::{BfdConfig, Detection};
use crate::event::Event;
use crate::event_queue::EventSender;

/// Time between two looks whether the peer has acknowledged its routes: the kernel wakes no thread for that.
const ACKNOWLEDGEMENT_LOOK: Duration = Duration::from_millis(20);
/// Bytes of a read, and reads of a round: more than the kernel's receive buffer holds, so that all is read that had arrived, and a peer that
/// sends without end keeps no other one waiting.
pub(super) const READ: usize = 1 << 16;
const READS: usize = 4;

/// The session of a peer and its connection, if there is one.
pub(super) struct Peering {
    id: SessionId,
    config: PeerConfig,
    routes: Arc<Routes>,
    session: Session,
    connection: Option<TcpConnection>,
    /// Own address and next hops, once connected.
    own: Option<(IpAddr, NextHops)>,
    /// Own address of the connection of the last Established session, and index of its interface if it has one.
    met: Option<(IpAddr, Option<u32>)>,
    /// True if the connection takes no more bytes for now.
    is_full: bool,
    /// Error of the connection, for the reason why the session is down.
    failure: Option<String>,
    error: Option<String>,
    /// True once the session is stopped.
    is_leaving: bool,
    events: EventSender,
}

impl Peering {
    /// A session that is started now.
    pub(super) fn new(
        id: SessionId,
        config: PeerConfig,
        random: Random,
        events: EventSender,
        now: Time,
    ) -> Self {
        let mut session = Session::new(config.session.clone(), random);
        session.start(now);
        Self {
            id,
            config,
            routes: Arc::default(),
            session,
            connection: None,
            own: None,
            met: None,
            is_full: false,
            failure: None,
            error: None,
            is_leaving: false,
            events,
        }
    }

    /// Returns true if it is the session of these settings, from addresses that the host has.
    pub(super) fn is_as(&self, config: &PeerConfig, host: &HostAddresses) -> bool {
        let SessionId { address, interface, .. } = &self.id;
        let is_displaced = |(own, used)| plan::is_displaced(own, *address, interface.as_deref(), host, used);
        let config = PeerConfig { bfd: self.config.bfd, ..config.clone() };
        self.config == config && !self.own.is_some_and(is_displaced)
    }

    pub(super) fn set_bfd(&mut self, bfd: Option<BfdConfig>) {
        self.config.bfd = bfd;
    }

    /// Returns the BFD session that this one needs, once it was Established: a router may start BFD for established sessions alone.
    pub(super) fn detection(&self) -> Option<Detection> {
        let ((own, interface), config) = self.met.zip(self.config.bfd)?;
        Some(Detection { config, own, interface, established_at: self.session.established_at() })
    }

    /// BFD has found the peer dead.
    pub(super) fn bfd_down(&mut self, now: Time) {
        self.session.handle_bfd_down(now);
    }

    pub(super) fn set_routes(&mut self, routes: Arc<Routes>) {
        if self.routes != routes {
            self.session.set_routes(Routes::clone(&routes));
            self.routes = routes;
        }
    }

    /// Leaves the peer in order.
    pub(super) fn stop(&mut self, cease: Notification, now: Time) {
        self.is_leaving = true;
        self.session.stop(cease, now);
    }

    /// Returns true if a session that was stopped has nothing left to do.
    pub(super) fn is_finished(&self) -> bool {
        self.session.is_finished() && self.connection.is_none()
    }

    /// Reads what had arrived at `now`, acts on timers that are due, and writes what the connection takes.
    pub(super) fn round(&mut self, host: &HostAddresses, buffer: &mut [u8], now: Time) {
        self.connect(host, now);
        self.read(buffer, now);
        if self.session.poll_timeout().is_some_and(|due| due <= now) {
            self.session.handle_timeout(now);
        }
        self.settle(now);
        self.acknowledge(now);
        self.settle(now);
    }

    /// The descriptor to wait for.
    pub(super) fn descriptor(&self) -> Option<PollFd<'_>> {
        let flags = match (self.own, self.is_full) {
            (None, _) => PollFlags::POLLOUT,
            (Some(_), true) => PollFlags::POLLIN | PollFlags::POLLOUT,
            (Some(_), false) => PollFlags::POLLIN,
        };
        self.connection.as_ref().map(|connection| PollFd::new(connection.as_fd(), flags))
    }

    /// Time of the next round, whatever arrives.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let look = self.session.awaits_acknowledgement().then(|| now + ACKNOWLEDGEMENT_LOOK);
        self.session.poll_timeout().into_iter().chain(look).min()
    }

    pub(super) fn status(&self) -> SessionStatus {
        let state = self.session.state();
        SessionStatus {
            id: self.id.clone(),
            state,
            own: self.own.map(|(own, _)| own),
            negotiated: self.session.negotiated().cloned(),
            sent: self.session.sent(),
            is_acknowledged: state == State::Established
                && !self.is_full
                && !self.session.awaits_acknowledgement(),
            counts: self.session.counts(),
            error: self.error.clone(),
        }
    }

    fn connect(&mut self, host: &HostAddresses, now: Time) {
        let Some(connection) = self.connection.as_ref().filter(|_| self.own.is_none()) else { return };
        match connection.connected() {
            Ok(None) => {}
            Ok(Some(own)) => {
                let SessionId { address, interface, .. } = &self.id;
                let found = plan::next_hops(own, *address, interface.as_deref(), host, None);
                self.own = Some((own, found));
                let NextHops { ipv4, ipv6 } = self.config.next_hops;
                let next_hops = NextHops { ipv4: ipv4.or(found.ipv4), ipv6: ipv6.or(found.ipv6) };
                self.session.handle_connected(next_hops, now);
            }
            Err(error) => self.lose(Some(&error), now),
        }
    }

    fn read(&mut self, buffer: &mut [u8], now: Time) {
        for _ in 0..READS {
            let Some(connection) = self.connection.as_ref().filter(|_| self.own.is_some()) else { return };
            match connection.read(buffer) {
                Ok(0) => self.lose(None, now),
                Ok(count) => self.session.handle_bytes(buffer.get(..count).unwrap_or_default(), now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.lose(Some(&error), now),
            }
        }
    }

    fn acknowledge(&mut self, now: Time) {
        let Some(connection) = self.connection.as_ref().filter(|_| self.session.awaits_acknowledgement())
        else {
            return;
        };
        match connection.is_acknowledged() {
            Ok(true) => self.session.handle_acknowledged(now),
            Ok(false) => {}
            Err(error) => self.lose(Some(&error), now),
        }
    }

    /// Does what the session asks for, until there is nothing left.
    fn settle(&mut self, now: Time) {
        loop {
            self.write(now);
            let Some(output) = self.session.poll_event() else { return };
            match output {
                Output::Dial => self.dial(now),
                Output::Close { reset } => self.close(reset),
                Output::Established(_) => {
                    self.met = self.own.map(|(own, _)| (own, self.interface_index()));
                    self.error = None;
                    self.report(State::Established);
                }
                Output::Down(reason) => self.down(&reason),
                Output::RoutesAcknowledged => {
                    self.events.send(Event::RoutesAcknowledged { session: self.id.clone() });
                }
            }
        }
    }

    fn write(&mut self, now: Time) {
        self.is_full = false;
        while let Some(connection) = self.connection.as_ref().filter(|_| self.own.is_some()) {
            let bytes = self.session.poll_transmit(now);
            if bytes.is_empty() {
                return;
            }
            match connection.write(bytes) {
                Ok(count) => self.session.handle_transmitted(count, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return;
                }
                Err(error) => self.lose(Some(&error), now),
            }
        }
    }

    fn dial(&mut self, now: Time) {
        let SessionId { address, interface, .. } = &self.id;
        let peer = match *address {
            IpAddr::V6(v6) if plan::is_link_local(*address) => {
                SocketAddrV6::new(v6, self.config.port, 0, self.interface_index().unwrap_or_default()).into()
            }
            address => SocketAddr::new(address, self.config.port),
        };
        let dialled = TcpConnection::dial(&Dial {
            peer,
            source: self.config.source,
            interface: interface.as_deref(),
            md5: self.config.password.as_ref(),
            minimum_ttl: self.config.minimum_ttl,
            user_timeout: self.config.session.hold_time.duration(),
        });
        match dialled {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => {
                self.failure = Some(error.to_string());
                self.session.handle_closed(now);
            }
        }
    }

    fn interface_index(&self) -> Option<u32> {
        self.id.interface.as_deref().and_then(|name| if_nametoindex(name).ok())
    }

    fn close(&mut self, reset: bool) {
        self.own = None;
        if let Some(connection) = self.connection.take().filter(|_| reset) {
            connection.reset();
        }
    }

    /// The connection has ended, or did not come about.
    fn lose(&mut self, error: Option<&io::Error>, now: Time) {
        self.failure = error.map(|error| format!("TCP: {error}"));
        self.connection = None;
        self.own = None;
        self.session.handle_closed(now);
    }

    /// Records why there is no session; the same reason is reported once. An end that was ordered is no failure.
    fn down(&mut self, reason: &DownReason) {
        let failure = self.failure.take();
        if self.is_leaving {
            return;
        }
        let error = match reason {
            DownReason::ConnectFailed | DownReason::ConnectionClosed => failure,
            _ => None,
        };
        let error = Some(error.unwrap_or_else(|| reason.to_string()));
        if self.error != error {
            self.error = error;
            self.report(State::Idle);
        }
    }

    fn report(&self, state: State) {
        let (session, error) = (self.id.clone(), self.error.clone());
        self.events.send(Event::SessionChanged { session, state, error });
    }
}
