//! Authentication of one virtual router: signs its adverts, and reports peers whose adverts it refuses.

use std::net::IpAddr;

use windlass_kernel::clock;
use windlass_vrrp::Time;
use windlass_vrrp::auth::{AuthError, Authentication, Authenticator, SignedData, Trailer};
use windlass_vrrp::wire::Packet;

use crate::config::RouterKey;
use crate::event::Event;
use crate::rate_limit::RateLimiter;

/// Reason for which an advert is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It was signed, or there is no authentication.
    Signed,
    /// Although it was not signed.
    Unsigned,
    /// It was accepted before: this is a copy of it.
    Again,
}

/// An authenticator and what it has reported.
pub(super) struct PeerAuthentication {
    authenticator: Authenticator,
    /// Peers and what was reported of them. Bounded by the number of peers.
    reports: RateLimiter<(IpAddr, &'static str)>,
}

impl PeerAuthentication {
    pub(super) fn new(authentication: Option<Authentication>) -> Self {
        Self { authenticator: Authenticator::new(authentication), reports: RateLimiter::new() }
    }

    /// Applies other keys or another mode. The record of adverts sent and received is kept, also while it is off.
    pub(super) fn reconfigure(&mut self, authentication: Option<Authentication>) {
        self.authenticator.reconfigure(authentication);
    }

    /// The trailer of an own advert, none in a mode that does not sign.
    pub(super) fn sign(&mut self, data: SignedData<'_>) -> Option<Trailer> {
        self.authenticator.sign(data, clock::wall())
    }

    /// Checks a peer's advert. `copies`: it may come twice, by multicast and by unicast.
    pub(super) fn admit(
        &mut self,
        packet: &Packet<'_>,
        copies: bool,
        key: &RouterKey,
        now: Time,
        events: &mut Vec<Event>,
    ) -> Result<Admission, AuthError> {
        if self.authenticator.config().is_none() {
            return Ok(Admission::Signed);
        }
        let source = packet.source;
        let data = SignedData { source, vrid: packet.vrid, message: packet.message };
        match self.authenticator.admit(data, packet.trailer, clock::wall()) {
            Ok(verified) => {
                if let Some(verified) = verified.filter(|verified| verified.drifting)
                    && self.reports.permits((source, "clocks"), now)
                {
                    let seconds = verified.skew;
                    events.push(Event::ClocksDiffer { key: key.clone(), source, seconds });
                }
                Ok(if verified.is_some() { Admission::Signed } else { Admission::Unsigned })
            }
            Err(AuthError::Replay { sequence, last }) if copies && sequence == last => Ok(Admission::Again),
            Err(error) => {
                if self.reports.permits((source, error.label()), now) {
                    events.push(Event::Unauthenticated { key: key.clone(), source, error });
                }
                Err(error)
            }
        }
    }
}
