//! Checks rules that hold whatever is done: a Service that is left alone keeps its addresses, and two Services that do not
//! share never show the same one. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use windlass_api::ServiceRef;
use windlass_ipam::Terms;

use super::cast::Key;
use crate::{
    Picture,
    invariants::{is_load_balancer, terms},
    shown,
};

/// Looks at Services one time after the other.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Addresses that each Service that is left alone has to keep.
    had: BTreeMap<Key, BTreeSet<IpAddr>>,
    /// Status writes of the test itself that the controller has not put right yet.
    hands: BTreeMap<Key, Hand>,
    /// All addresses that the test itself ever wrote into a status. As long as no pool has one, it is a foreign entry, and
    /// may stay beside the Service's own addresses.
    strangers: BTreeMap<Key, BTreeSet<IpAddr>>,
    /// Terms on which each Service may have shared since the last calm, by UID.
    terms: BTreeMap<String, Vec<Terms>>,
    moved: BTreeSet<String>,
    doubled: BTreeSet<String>,
    lost: BTreeSet<String>,
}

/// A hand of the test in a status.
#[derive(Debug)]
struct Hand {
    /// Version of the object with it; `None` until the API server has accepted it.
    version: Option<u64>,
}

impl Oracle {
    /// With what those that are left alone show.
    pub(crate) fn new(had: BTreeMap<Key, BTreeSet<IpAddr>>) -> Self {
        Self { had, ..Self::default() }
    }

    /// Returns the addresses of a Service that is left alone.
    pub(crate) fn had(&self, key: &Key) -> Option<&BTreeSet<IpAddr>> {
        self.had.get(key)
    }

    /// The test is about to write this over what the Service shows, or to delete it and make it anew.
    pub(crate) fn hand_comes(&mut self, key: &Key, wrote: BTreeSet<IpAddr>) {
        self.strangers.entry(key.clone()).or_default().extend(wrote);
        self.hands.insert(key.clone(), Hand { version: None });
    }

    /// The API server took it.
    pub(crate) fn hand_came(&mut self, service: &Service) {
        if let Some(hand) = self.hands.get_mut(&Key::of(service)) {
            hand.version = version(service);
        }
    }

    /// Returns the numbers of moves, doubled addresses and losses.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.moved.len(), self.doubled.len(), self.lost.len())
    }

    /// Fails with all that was found.
    pub(crate) fn verdict(&self) -> anyhow::Result<()> {
        let found: Vec<_> = [&self.moved, &self.doubled, &self.lost].into_iter().flatten().cloned().collect();
        ensure!(found.is_empty(), "{}", found.join("; "));
        Ok(())
    }

    /// Looks at all Services of one moment; returns what is new and must not be.
    pub(crate) fn look(&mut self, services: &[Service]) -> Vec<String> {
        for service in services {
            self.learn(service);
        }
        let before = self.counts();
        let known = [&self.moved, &self.doubled, &self.lost].map(Clone::clone);
        self.look_at_steady(services);
        self.look_for_doubled(services);
        if self.counts() == before {
            return Vec::new();
        }
        let now = [&self.moved, &self.doubled, &self.lost];
        now.iter().zip(&known).flat_map(|(now, known)| now.difference(known).cloned()).collect()
    }

    /// The same at the end of a calm, when all hands and edits must have been seen to.
    pub(crate) fn calm(&mut self, services: &[Service]) -> Vec<String> {
        self.hands.clear();
        self.terms.clear();
        self.look(services)
    }

    fn is_strangers(&self, key: &Key, address: IpAddr) -> bool {
        self.strangers.get(key).is_some_and(|wrote| wrote.contains(&address))
    }

    /// Terms on which a Service is, or was since the last calm, ready to share: an edit is seen to a moment later.
    pub(crate) fn learn(&mut self, service: &Service) {
        let (Some(uid), terms) = (service.uid(), terms(service)) else { return };
        let all = self.terms.entry(uid).or_default();
        if !all.contains(&terms) {
            all.push(terms);
        }
    }

    /// Returns a sentence for each Service that is left alone and does not show the addresses that it had.
    pub(crate) fn displaced(&self, services: &[Service]) -> Vec<String> {
        let shown_by = |key: &Key| services.iter().find(|service| Key::of(service) == *key).map(shown);
        let displaced = self.had.iter().map(|(key, had)| (key, had, shown_by(key)));
        displaced
            .filter(|(key, had, now)| {
                let others = now.iter().flatten().filter(|address| !had.contains(address));
                let is_strangers = |address: &IpAddr| self.is_strangers(key, *address);
                !now.as_ref().is_some_and(|now| had.is_subset(now)) || !others.into_iter().all(is_strangers)
            })
            .map(|(key, had, now)| format!("{key} had {had:?} and shows {now:?}"))
            .collect()
    }

    fn look_at_steady(&mut self, services: &[Service]) {
        for (key, had) in &self.had {
            let service = services.iter().find(|service| Key::of(service) == *key);
            let now = service.map(shown).unwrap_or_default();
            let hand = self.hands.get(key);
            let is_hand = |address: &&IpAddr| self.is_strangers(key, **address);
            let others: Vec<_> = now.difference(had).filter(|one| !is_hand(one)).collect();
            if !others.is_empty() {
                self.moved.insert(format!("{key} had {had:?} and shows {others:?}"));
            }
            if hand.is_none() && !had.is_subset(&now) {
                self.lost.insert(format!("{key} had {had:?} and shows {now:?} without them"));
            }
            let is_later = |hand: &Hand| hand.version < service.and_then(version) && hand.version.is_some();
            if had.is_subset(&now) && hand.is_some_and(is_later) {
                self.hands.remove(key);
            }
        }
    }

    fn look_for_doubled(&mut self, services: &[Service]) {
        let mut by_address: BTreeMap<IpAddr, Vec<(Key, String)>> = BTreeMap::new();
        for service in services.iter().filter(|service| is_load_balancer(service)) {
            let key = Key::of(service);
            let forged = |address: &IpAddr| {
                self.is_strangers(&key, *address)
                    && !self.had.get(&key).is_some_and(|had| had.contains(address))
            };
            for address in shown(service).into_iter().filter(|address| !forged(address)) {
                let uid = service.uid().unwrap_or_default();
                by_address.entry(address).or_default().push((key.clone(), uid));
            }
        }
        for (address, services) in by_address {
            for (index, (key, uid)) in services.iter().enumerate() {
                for (other, other_uid) in &services[index + 1..] {
                    if !self.may_share(uid, other_uid) {
                        self.doubled.insert(format!("{key} and {other} both show {address}"));
                    }
                }
            }
        }
    }

    fn may_share(&self, one: &str, other: &str) -> bool {
        let all = |uid| self.terms.get(uid).into_iter().flatten();
        all(one).any(|one| all(other).any(|other| one.fits(other).is_ok()))
    }

    /// Returns true if every Service that is left alone owns all claims of its addresses. Until then pools keep what they
    /// list: an address in a status that neither a claim nor a pool has may be a foreign entry.
    pub(crate) fn is_claimed(&self, picture: &Picture) -> bool {
        self.had.iter().all(|(key, had)| {
            let service = picture.services.iter().find(|service| Key::of(service) == *key);
            service.is_some_and(|service| had.iter().all(|address| owns(picture, service, *address)))
        })
    }

    /// Returns true if a Service shows all its addresses and no write of the test is pending, or if it is not left alone.
    pub(crate) fn shows_all(&self, service: &Service) -> bool {
        let key = Key::of(service);
        let had = self.had.get(&key);
        had.is_none_or(|had| had.is_subset(&shown(service)) && !self.hands.contains_key(&key))
    }

    /// Returns true if both records of an address, status and claim, are whole, so that one of them may be harmed. Each
    /// Service that is left alone and had it shows it and owns its claim, likewise for its other addresses. No other Service
    /// shows it or is named an owner.
    pub(crate) fn is_intact(&self, picture: &Picture, address: IpAddr) -> bool {
        let is_whole = |(key, had): (&Key, &BTreeSet<IpAddr>)| {
            let service = picture.services.iter().find(|service| Key::of(service) == *key);
            service.is_some_and(|service| {
                self.shows_all(service) && had.iter().all(|address| owns(picture, service, *address))
            })
        };
        let shows = |owner: &ServiceRef| {
            let service = picture.services.iter().find(|service| service.uid().as_ref() == Some(&owner.uid));
            service.is_some_and(|service| shown(service).contains(&address))
        };
        let mut claims = picture.virtual_ips.iter().filter(|claim| claim.spec.address == address);
        let mut showing = picture.services.iter().filter(|service| shown(service).contains(&address));
        showing
            .all(|service| owns(picture, service, address) || self.is_strangers(&Key::of(service), address))
            && self.had.iter().filter(|(_, had)| had.contains(&address)).all(is_whole)
            && claims.all(|claim| claim.spec.owners.iter().all(shows))
    }
}

/// Returns true if the Service owns the claim of the address, and the claim is neither in quarantine nor being deleted.
fn owns(picture: &Picture, service: &Service, address: IpAddr) -> bool {
    let claim = picture.virtual_ips.iter().find(|claim| claim.spec.address == address);
    claim.is_some_and(|claim| {
        let mut owners = claim.spec.owners.iter();
        claim.spec.quarantine.is_none()
            && claim.metadata.deletion_timestamp.is_none()
            && owners.any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
    })
}

/// Versions are numbers that grow (`KEP-5504`).
fn version(service: &Service) -> Option<u64> {
    service.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests;
