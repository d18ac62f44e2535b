//! From whom a router takes over: whether a peer can have served its addresses. If not, they may be a stranger's: a peer that
//! became Active a moment ago is asking still.

use std::time::Duration;

use windlass_vrrp::{Interval, Time};

#[cfg(test)]
mod tests;

/// An Active is heard at least each so many halves of its interval, if it was there before: the one to come, and half of
/// one for what delays it.
const HALVES: u32 = 3;
/// A peer has asked for its addresses after so many times as long as it asks: it may have waited for one before it.
const PATIENCE: u32 = 2;

/// Who was Active before a takeover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// No peer.
    Nobody,
    /// A peer, for so short a time that it may have been asking still.
    Newcomer,
    /// A peer that claimed what it was going to claim.
    Server,
}

/// What was heard of peers as Active since a router was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Predecessor {
    started: Time,
    served: Served,
}

/// Since when a peer has been Active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Served {
    /// None was heard.
    #[default]
    Never,
    /// The first was silent until then, for longer than an Active is.
    Since(Time),
    /// It was there when the router was started.
    Before,
}

impl Predecessor {
    /// Of a router that is started now.
    pub(crate) fn awaited(now: Time) -> Self {
        Self { started: now, served: Served::Never }
    }

    /// A peer's advert has come, with this interval in it.
    pub(crate) fn heard(&mut self, interval: Interval, now: Time) {
        self.served = match self.served {
            Served::Never if now.since(self.started) * 2 <= interval.duration() * HALVES => Served::Before,
            Served::Never => Served::Since(now),
            Served::Since(_) | Served::Before => return,
        };
    }

    /// Who was Active until now, where all ask for `probe`.
    pub(crate) fn before(&self, probe: Option<Duration>, now: Time) -> Before {
        match self.served {
            Served::Never => Before::Nobody,
            Served::Since(since) if now.since(since) < probe.unwrap_or_default() * PATIENCE => {
                Before::Newcomer
            }
            Served::Since(_) | Served::Before => Before::Server,
        }
    }
}
