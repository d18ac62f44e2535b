//! Messages of the peer, in the state in which they arrive.

use super::config::Negotiated;
use super::{DownReason, Event, Session, State};
use crate::units::{Family, Time};
use crate::wire::{ErrorCode, Message, Notification, Open, decode, keepalive};

impl Session {
    /// Handles the whole messages in the receive buffer.
    pub(super) fn read_messages(&mut self, now: Time) {
        let mut taken: usize = 0;
        while self.state.is_connected() {
            match decode(self.inbox.get(taken..).unwrap_or_default()) {
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    taken = taken.saturating_add(length);
                    self.handle_message(message, now);
                }
                Err(notification) => self.end(notification, now),
            }
        }
        self.inbox.drain(..taken.min(self.inbox.len()));
    }

    fn handle_message(&mut self, message: Message, now: Time) {
        match (self.state, message) {
            (State::Idle | State::Connect, _) => {}
            (_, Message::Notification(notification)) => self.handle_notification(notification, now),
            (State::OpenSent, Message::Open(open)) => self.handle_open(&open, now),
            (State::OpenSent, _) => self.end(ErrorCode::UNEXPECTED_IN_OPEN_SENT.into(), now),
            (State::OpenConfirm, Message::Keepalive) => self.establish(now),
            (State::OpenConfirm, _) => self.end(ErrorCode::UNEXPECTED_IN_OPEN_CONFIRM.into(), now),
            (State::Established, Message::Open(_)) => {
                self.end(ErrorCode::UNEXPECTED_IN_ESTABLISHED.into(), now);
            }
            (State::Established, Message::Keepalive) => self.restart_hold_timer(now),
            (State::Established, Message::Update(update)) => {
                self.counts.add(update);
                self.restart_hold_timer(now);
            }
            (State::Established, Message::RouteRefresh(family)) => self.handle_refresh(family, now),
        }
    }

    fn handle_open(&mut self, open: &Open, now: Time) {
        let own = self.offer.open(&self.config);
        match Negotiated::new(&self.config, &own, open) {
            Err(notification) => self.end(notification, now),
            Ok(negotiated) => {
                self.state = State::OpenConfirm;
                self.negotiated = Some(negotiated);
                self.restart_hold_timer(now);
                keepalive(self.outbox.end());
                self.restart_keepalive_timer(now);
            }
        }
    }

    fn establish(&mut self, now: Time) {
        let Some((negotiated, next_hops)) = self.negotiated.clone().zip(self.next_hops) else { return };
        self.state = State::Established;
        self.established_at = Some(now);
        self.restart_hold_timer(now);
        self.rib.open(negotiated.peering(self.config.local_as, next_hops));
        self.events.push_back(Event::Established(negotiated));
    }

    fn handle_refresh(&mut self, family: Option<Family>, now: Time) {
        let is_offered = self.offer.open(&self.config).capabilities.route_refresh;
        let is_used = |family: &Family| self.negotiated.as_ref().is_some_and(|n| n.families.contains(family));
        match family.filter(|family| is_offered && is_used(family)) {
            None => self.counts.ignored_refreshes = self.counts.ignored_refreshes.saturating_add(1),
            Some(family) => {
                self.refreshes.request(family);
                self.obey_refreshes(now);
            }
        }
    }

    fn handle_notification(&mut self, notification: Notification, now: Time) {
        let is_old = [ErrorCode::UNSUPPORTED_CAPABILITY, ErrorCode::UNSUPPORTED_PARAMETER];
        if is_old.contains(&notification.error) {
            self.offer = self.offer.reduced(&self.config);
        }
        self.events.push_back(Event::Close { reset: false });
        self.finish(DownReason::Received(notification), now);
    }
}
