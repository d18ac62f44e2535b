//! A session with its socket.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use windlass_bgp::Time;
use windlass_bgp::bfd::{Event as Change, Packet, Rejection, Session, State};
use windlass_bgp::units::Random;
use windlass_kernel::bfd::{Admitted, BfdSender};
use windlass_vrrp::Family;

use super::status::BfdSession;
use super::{Detection, now};
use crate::speaker::status::SessionId;

/// Time from Established to the start of BFD. FRR replaces its BFD session then, and ends BGP if the former one was Up.
const SETTLING: Duration = Duration::from_secs(1);

/// A session with a peer. Its end takes it down as an administrator does.
pub(super) struct Running {
    id: SessionId,
    detection: Detection,
    session: Session,
    sender: Option<BfdSender>,
    flaps: u64,
}

impl Running {
    pub(super) fn new(id: &SessionId, detection: Detection, random: &mut Random, now: Time) -> Self {
        // Two sessions may draw the same one: the peer's address distinguishes them.
        let drawn = u32::try_from(random.roll() >> 32).unwrap_or_default();
        let discriminator = NonZeroU32::new(drawn).unwrap_or(NonZeroU32::MIN);
        let random = Random::new(random.roll());
        let session = Session::new(detection.config.timers, discriminator, random, now);
        Self { id: id.clone(), detection, session, sender: None, flaps: 0 }
    }

    /// Returns true if it is the session of these settings but for its timers and the state of BGP, which it follows.
    pub(super) fn becomes(&mut self, detection: Detection, now: Time) -> bool {
        let timers = detection.config.timers;
        let mut same = self.detection;
        same.config.timers = timers;
        same.established_at = detection.established_at;
        if same == detection {
            self.detection = same;
            self.session.reconfigure(timers, now);
        }
        same == detection
    }

    /// Opens its socket if it has none.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if self.sender.is_none() {
            let Detection { config, own, interface, .. } = self.detection;
            let [_, _, number @ ..] = self.session.discriminator().get().to_be_bytes();
            let peer = SocketAddr::new(self.id.address, config.port());
            let interface = self.id.interface.as_deref().zip(interface);
            let sender = BfdSender::open(own, peer, interface, u16::from_be_bytes(number));
            self.sender = Some(sender?);
        }
        Ok(())
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Family and port of the socket that receives its packets.
    pub(super) fn place(&self) -> (Family, u16) {
        (Family::of(self.id.address), self.detection.config.port())
    }

    /// Packets that the kernel passes to it.
    pub(super) fn admitted(&self) -> Admitted {
        let Detection { config, own, interface, .. } = self.detection;
        let discriminator = self.session.discriminator();
        let (peer, minimum_ttl) = (self.id.address, config.minimum_ttl());
        Admitted { own, peer, interface, minimum_ttl, discriminator }
    }

    /// Returns true if a packet from this address to this port is its peer's: by the discriminator, or by the addresses where that is 0.
    pub(super) fn is_peer(&self, packet: &Packet, from: SocketAddr, port: u16) -> bool {
        let scope = match from {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(from) => from.scope_id(),
        };
        let is_named = packet.your_discriminator.is_none_or(|your| your == self.session.discriminator());
        let is_here = scope == 0 || self.detection.interface == Some(scope);
        is_named && is_here && self.id.address == from.ip() && self.detection.config.port() == port
    }

    pub(super) fn receive(&mut self, packet: &Packet, now: Time) -> Result<Option<Change>, Rejection> {
        self.session.handle_packet(packet, now)?;
        Ok(self.take_change())
    }

    /// Follows the state of BGP, and judges silence, after all packets that have arrived by `now` were received.
    pub(super) fn look(&mut self, now: Time) -> Option<Change> {
        if self.starts_at().is_some_and(|start| start <= now) {
            self.session.enable(now);
        } else {
            self.session.take_down(now);
        }
        self.session.handle_timeout(now);
        self.take_change()
    }

    /// Sends what is due. A packet that the kernel does not take counts as lost on the way.
    pub(super) fn send(&mut self, now: Time) {
        while let Some(packet) = self.session.poll_transmit(now) {
            if let Some(sender) = &self.sender {
                let _ = sender.send(&packet.encode());
            }
        }
    }

    pub(super) fn due(&self) -> Option<Time> {
        let start = self.starts_at().filter(|_| self.session.state() == State::AdminDown);
        self.session.poll_timeout().into_iter().chain(start).min()
    }

    /// Start of BFD, while BGP is Established.
    fn starts_at(&self) -> Option<Time> {
        self.detection.established_at.map(|at| at + SETTLING)
    }

    pub(super) fn status(&self) -> BfdSession {
        let (remote_state, remote_diagnostic) = self.session.remote();
        BfdSession {
            state: self.session.state(),
            diagnostic: self.session.diagnostic(),
            remote_state,
            remote_diagnostic,
            transmit_interval: self.session.transmit_interval(),
            detection_time: self.session.detection_time(),
            flaps: self.flaps,
        }
    }

    /// A change to Up or from it.
    fn take_change(&mut self) -> Option<Change> {
        let change = self.session.poll_event()?;
        if change.from == State::Up && change.to == State::Down {
            self.flaps = self.flaps.saturating_add(1);
        }
        Some(change).filter(|change| change.from == State::Up || change.to == State::Up)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let now = now();
        self.session.take_down(now);
        self.send(now);
    }
}

#[cfg(test)]
mod tests {
    use windlass_bgp::bfd::Config;

    use super::*;
    use crate::bfd::{BfdConfig, BfdPath};

    // shows: bgp B91
    #[test]
    fn bfd_rests_while_bgp_connects_and_for_a_second_more() {
        let interval = Duration::from_millis(300);
        let timers = Config { transmit: interval, receive: interval, multiplier: 3.try_into().unwrap() };
        let [own, address] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
        let start = now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let detection = |established_at| Detection {
            config: BfdConfig::new(timers, BfdPath::SingleHop).unwrap(),
            own,
            interface: None,
            established_at,
        };
        let id = SessionId { peer: "router".to_owned(), address, interface: None };
        let mut running = Running::new(&id, detection(Some(start)), &mut Random::new(1), start);
        let state_at = |running: &mut Running, now| {
            running.look(now);
            running.status().state
        };
        assert_eq!(state_at(&mut running, start), State::AdminDown);
        running.send(after(999));
        assert_eq!(running.due(), Some(after(1000)));
        assert_eq!(state_at(&mut running, after(999)), State::AdminDown);
        assert_eq!(state_at(&mut running, after(1000)), State::Down);
        // Connected again since.
        assert!(running.becomes(detection(Some(after(5000))), after(5000)));
        assert_eq!(state_at(&mut running, after(5999)), State::AdminDown);
        assert_eq!(state_at(&mut running, after(6000)), State::Down);
        assert!(running.becomes(detection(None), after(7000)));
        assert_eq!(state_at(&mut running, after(9000)), State::AdminDown);
    }
}
