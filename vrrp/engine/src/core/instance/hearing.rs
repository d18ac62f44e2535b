//! Effects of peers' adverts on a virtual router.

use windlass_vrrp::auth::AuthError;
use windlass_vrrp::wire::{Checksum, Packet};
use windlass_vrrp::{AdvertOutcome, Config, ReceivedAdvert, Time};

use crate::core::peer_authentication::Admission;
use crate::core::recognised::RecognisedPeers;

use super::{Instance, InstanceContext};

/// Reason why an advert with a router's VRID is not obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::core) enum Refusal {
    /// Authentication refuses it.
    Unauthentic(AuthError),
    /// Its sender is not taken for a peer yet, as many new ones came in a short time.
    NotRecognised,
}

impl Instance {
    /// Does what an advert with its VRID asks for, unless that is refused.
    pub(in crate::core) fn handle_advert(
        &mut self,
        packet: &Packet<'_>,
        out: &mut InstanceContext<'_>,
    ) -> Result<AdvertOutcome, Refusal> {
        // Of others than the peers nothing is obeyed: no signature is worth the time.
        let is_named = self.config.peers.contains(&packet.source);
        let is_recognised =
            !is_named && RecognisedPeers::recognises(&self.config, packet.source, packet.addresses());
        if is_named || is_recognised {
            let copies = self.config.falls_back();
            let admitted = self.peer_authentication.admit(packet, copies, &self.key, out.now, out.events);
            self.counters.unauthenticated += u64::from(admitted.is_err());
            match admitted.map_err(Refusal::Unauthentic)? {
                Admission::Signed => {}
                Admission::Unsigned => self.counters.unsigned += 1,
                Admission::Again => {
                    self.router.hear_again(packet.source, packet.unicast, out.now);
                    self.report_without_multicast(out);
                    return Ok(AdvertOutcome::Obeyed);
                }
            }
        }
        if is_recognised {
            if !self.recognised.admit(packet.source, out.now) {
                self.counters.foreign_adverts += 1;
                out.events.extend(self.fault_reports.not_recognised(&self.key, out.now));
                return Err(Refusal::NotRecognised);
            }
            self.count_among_peers(out);
        } else {
            self.recognised.heard(packet.source, out.now);
        }
        let heard = ReceivedAdvert {
            source: packet.source,
            priority: packet.priority,
            interval: packet.interval,
            version: packet.version,
            unicast: packet.unicast,
        };
        let was_active = self.is_active();
        let outcome = self.router.handle_advert(heard, out.now);
        if outcome == AdvertOutcome::OwnAddress {
            out.events.extend(self.fault_reports.own_source(&self.key, out.now));
        }
        if outcome == AdvertOutcome::Inferior && was_active {
            let (source, interval) = (packet.source, packet.interval.max(self.config.interval));
            out.events.extend(self.fault_reports.contended(&self.key, source, interval, out.now));
        }
        let before = self.heard.from();
        if self.count(packet, outcome, was_active, out.now) && self.note_unlisted() {
            self.tell_unproven(out);
        }
        if let Some(peer) = self.heard.from()
            && before != Some(peer)
        {
            self.handle.hear_from(peer);
            *out.wake_helpers |= before.is_some();
        }
        self.carry_out(out);
        Ok(outcome)
    }

    /// Counts those that are recognised among the peers from now on.
    fn count_among_peers(&mut self, out: &mut InstanceContext<'_>) {
        self.config.peers = self.recognised.with(&self.named, &self.config);
        let peers = self.config.peers.clone();
        self.router.reconfigure(Config { peers, ..self.router.config().clone() }, out.now);
        self.carry_out(out);
        self.prepare();
        *out.wake_helpers = true;
    }

    /// Records an advert. Returns true if it changes what adverts show of which VIPs the Active has.
    fn count(&mut self, packet: &Packet<'_>, outcome: AdvertOutcome, was_active: bool, now: Time) -> bool {
        let yields = self.predecessor.yields(packet.source, now);
        let counters = &mut self.counters;
        match outcome {
            AdvertOutcome::Asked => return false,
            AdvertOutcome::NotAPeer => {
                counters.foreign_adverts += 1;
                return false;
            }
            AdvertOutcome::OwnAddress => {
                counters.own_address += 1;
                return false;
            }
            AdvertOutcome::Inferior if was_active && !yields => counters.contentions += 1,
            AdvertOutcome::IntervalMismatch => counters.interval_refused += 1,
            AdvertOutcome::Inferior
            | AdvertOutcome::Obeyed
            | AdvertOutcome::Superseded
            | AdvertOutcome::NotRunning => {}
        }
        self.predecessor.heard(packet.interval, now);
        counters.adverts_received += 1;
        counters.resignations_received += u64::from(packet.priority.is_none());
        counters.interval_mismatches += u64::from(packet.interval != self.config.interval);
        counters.rfc5798_checksums += u64::from(packet.checksum == Checksum::Rfc5798);
        counters.missing_link_local += u64::from(packet.lacks_link_local());
        self.heard.hear(packet.source, packet.priority, packet.addresses())
    }
}
