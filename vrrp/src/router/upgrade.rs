//! Both versions at once (RFC 9568 §8.4): the peers that have come to version 3.

use std::net::IpAddr;

use super::config::Config;
use super::outcome::ReceivedAdvert;
use crate::units::{Time, Version, Versions};

/// Peers whose version 3 adverts arrived lately. Their version 2 adverts repeat the same, a little later, and do not count. After an
/// Active_Down_Interval without version 3 a peer's version 2 adverts count again: it may have gone back.
#[derive(Clone, Debug)]
pub(super) struct UpgradedPeers {
    /// Time until which each counts as upgraded. Has room for every peer, so that recording one allocates nothing.
    until: Vec<(IpAddr, Time)>,
}

impl UpgradedPeers {
    pub(super) fn new(config: &Config) -> Self {
        let mut peers = Self { until: Vec::new() };
        peers.adapt(config);
        peers
    }

    /// Removes former peers, and reserves room for the present ones.
    pub(super) fn adapt(&mut self, config: &Config) {
        match config.versions {
            Versions::V3 | Versions::V2 => self.until = Vec::new(),
            Versions::V2AndV3 => {
                self.until.retain(|(peer, _)| config.peers.contains(peer));
                self.until.reserve(config.peers.len().saturating_sub(self.until.len()));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.until.capacity()
    }

    /// Records an advert of a peer. Returns true if version 3 adverts of the same peer supersede it.
    pub(super) fn is_superseded(&mut self, advert: &ReceivedAdvert, config: &Config, now: Time) -> bool {
        match config.versions {
            Versions::V3 | Versions::V2 => return false,
            Versions::V2AndV3 => {}
        }
        let known = self.until.iter_mut().find(|(peer, _)| *peer == advert.source);
        match advert.version {
            Version::V2 => known.is_some_and(|(_, until)| now < *until),
            Version::V3 => {
                let new_until = now + config.active_down(Some(advert.interval));
                match known {
                    Some((_, until)) => *until = new_until,
                    None => self.until.push((advert.source, new_until)),
                }
                false
            }
        }
    }
}
