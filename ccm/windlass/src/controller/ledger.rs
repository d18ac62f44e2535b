//! Who holds which address, in memory: the allocator, and for each address the proof that it is held.
//!
//! The truth is the cluster: a `VirtualIP` object *is* the claim, because two objects cannot have one name. The ledger
//! is what this controller knows of it, plus what it is about to claim.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube::ResourceExt as _;
use windlass_api::{ServiceRef, VirtualIP};
use windlass_ipam::{Adopted, AllocateError, Allocator, Counts, Family, Plan, Pool, Request, Terms};

use super::cache::version;

/// What stands behind an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing but our intent: the object is not created yet, or the answer to its creation was lost.
    Reserved,
    /// The object.
    Object {
        /// `metadata.uid` of the VirtualIP.
        uid: String,
        /// The newest `metadata.resourceVersion` seen of it.
        version: u64,
    },
}

/// What an observation changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing, or the same owner holds it on better proof.
    Same,
    /// The address is held where it was free.
    Held,
    /// Another controller's object shows that the address is not this Service's: it has to ask for another.
    Lost(ServiceRef),
}

/// What the deletion of an object changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// No claim stood on this object.
    NotOurs,
    /// The address stays reserved for its Service.
    Kept,
    /// The address is free.
    Freed,
}

/// The ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    allocator: Allocator<ServiceRef>,
    proofs: BTreeMap<IpAddr, Proof>,
}

impl Ledger {
    /// Sets which addresses can be given; what is held stays held.
    pub(crate) fn set_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        self.allocator.replace_pools(pools);
    }

    /// Gives `owner` what it asks for, reserved until the objects exist.
    pub(crate) fn place(
        &mut self,
        owner: &ServiceRef,
        request: &Request,
    ) -> Result<Plan, AllocateError<ServiceRef>> {
        let plan = self.allocator.prepare(owner, request)?.commit();
        for planned in &plan.addresses {
            self.proofs.entry(planned.address).or_insert(Proof::Reserved);
        }
        Ok(plan)
    }

    /// `owner` uses what it holds on these terms.
    pub(crate) fn set_terms(&mut self, owner: &ServiceRef, terms: &Terms) {
        self.allocator.set_terms(owner, terms);
    }

    /// What is in use, and what can be given.
    pub(crate) const fn allocator(&self) -> &Allocator<ServiceRef> {
        &self.allocator
    }

    /// The watch shows `vip`. A reservation of ours stands until the API server itself has answered our creation; a
    /// claim on an older object yields to a newer object.
    pub(crate) fn observe(&mut self, vip: &VirtualIP) -> Outcome {
        self.note(vip, false)
    }

    /// The API server's own answer for `vip`: it is the truth, whatever we reserved.
    pub(crate) fn settle(&mut self, vip: &VirtualIP) -> Outcome {
        self.note(vip, true)
    }

    fn note(&mut self, vip: &VirtualIP, answer: bool) -> Outcome {
        let address = vip.spec.address;
        let Some(owner) = vip.spec.owners.first() else { return Outcome::Same };
        let proof = Proof::Object { uid: vip.uid().unwrap_or_default(), version: version(vip) };
        let terms = Terms::alone(&owner.namespace);
        match self.allocator.adopt(address, owner, &terms) {
            Adopted::New | Adopted::Joined => {
                self.proofs.insert(address, proof);
                Outcome::Held
            }
            Adopted::Already => {
                let newer = !matches!(self.proofs.get(&address),
                    Some(Proof::Object { version: known, .. }) if *known > version(vip));
                if newer {
                    self.proofs.insert(address, proof);
                }
                Outcome::Same
            }
            Adopted::Conflict { holder } => {
                let stands = match self.proofs.get(&address) {
                    Some(Proof::Object { version: known, .. }) => version(vip) <= *known,
                    Some(Proof::Reserved) | None => !answer,
                };
                if stands {
                    return Outcome::Same;
                }
                self.allocator.disown(address, &holder);
                self.allocator.adopt_together(address, owner, &terms);
                self.proofs.insert(address, proof);
                Outcome::Lost(holder)
            }
            Adopted::Quarantined => Outcome::Same,
        }
    }

    /// The Service's status shows `address`, and no object claims it: reserved for it, if it is in a pool.
    pub(crate) fn adopt_from_status(&mut self, owner: &ServiceRef, address: IpAddr) {
        let terms = Terms::alone(&owner.namespace);
        if self.allocator.pool_of(address).is_some()
            && self.allocator.adopt(address, owner, &terms) == Adopted::New
        {
            self.proofs.insert(address, Proof::Reserved);
        }
    }

    /// The object behind a claim was deleted. `keep`: its Service still wants the address, so that it stays reserved
    /// until the object is made again.
    pub(crate) fn object_gone(&mut self, vip: &VirtualIP, keep: bool) -> Gone {
        let address = vip.spec.address;
        match self.proofs.get(&address) {
            Some(Proof::Object { uid, .. }) if Some(uid) == vip.metadata.uid.as_ref() => {}
            Some(Proof::Object { .. } | Proof::Reserved) | None => return Gone::NotOurs,
        }
        if keep {
            self.proofs.insert(address, Proof::Reserved);
            return Gone::Kept;
        }
        if let Some(holder) = self.holder(address).cloned() {
            self.release(address, &holder);
        }
        Gone::Freed
    }

    /// Frees `address` if `owner` holds it.
    pub(crate) fn release(&mut self, address: IpAddr, owner: &ServiceRef) -> bool {
        let released = self.allocator.disown(address, owner);
        if released {
            self.proofs.remove(&address);
        }
        released
    }

    /// What `owner` holds.
    pub(crate) fn held_by(&self, owner: &ServiceRef) -> Vec<IpAddr> {
        self.allocator.held_by(owner).collect()
    }

    /// What stands behind the claim to `address`.
    pub(crate) fn proof(&self, address: IpAddr) -> Option<&Proof> {
        self.proofs.get(&address)
    }

    /// Who holds `address`.
    pub(crate) fn holder(&self, address: IpAddr) -> Option<&ServiceRef> {
        self.allocator.holders(address).first()
    }

    /// Every claim, in the order of addresses.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (IpAddr, &ServiceRef)> {
        self.allocator.in_use().filter_map(|(address, holders)| Some((address, holders.first()?)))
    }

    /// The pool that holds `address` now.
    pub(crate) fn pool_of(&self, address: IpAddr) -> Option<&str> {
        self.allocator.pool_of(address).map(|pool| pool.name.as_str())
    }

    /// Counts of a pool.
    pub(crate) fn counts(&self, pool: &str, family: Family) -> Counts {
        self.allocator.counts(pool, family)
    }
}

#[cfg(test)]
mod tests;
