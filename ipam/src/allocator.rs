//! Which address goes to whom.

mod book;
mod error;
mod free;
mod known;
mod planner;
mod stock;

use std::net::IpAddr;
use std::time::Duration;

use book::Book;
pub use error::{AllocateError, Refusal, Refused, Unshared};
pub use stock::Counts;
use stock::{Stocks, Use};

use crate::quarantine::Ward;
use crate::{Family, How, Moment, Owner, Plan, Policy, Pool, Quarantined, Reason, Request, Terms};

/// Outcome of adopting an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted<O> {
    /// The owner holds it, where nobody held it.
    New,
    /// The owner held it already.
    Already,
    /// The owner holds it together with those who did.
    Joined,
    /// Another holds it, and its terms do not allow to join; nothing was changed.
    Conflict {
        /// Who holds it.
        holder: O,
    },
    /// It is kept back; nothing was changed.
    Quarantined,
}

/// Outcome of [`Allocator::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The owner did not hold it; nothing was changed.
    NotHeld,
    /// Others still hold it.
    StillShared,
    /// It is kept back.
    Quarantined {
        /// Until then.
        until: Moment,
    },
    /// It can be given again.
    Free,
}

/// Gives addresses of pools to owners.
///
/// Addresses in use belong to the allocator, not to a pool: replacing the pools changes what can be given, never what
/// was given. The same state and the same request give the same answer.
///
/// Pools are searched in ascending order of their priority; of equal ones those with selectors come first, then the
/// name decides. An address that several pools list belongs to the first of them in this order, and to no other.
///
/// With n addresses in use and r ranges in all pools, each call costs O(log n + log r) for each address concerned and
/// each pool searched. Holders are hashed, so that every now and then, when their number has doubled, one call costs O(n).
/// [`Self::replace_pools`] costs O((n + r) log n), and only if they changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator<O: Owner> {
    stocks: Stocks,
    book: Book<O>,
    ward: Ward<O>,
}

impl<O: Owner> Default for Allocator<O> {
    fn default() -> Self {
        Self { stocks: Stocks::default(), book: Book::default(), ward: Ward::default() }
    }
}

/// A plan that can be carried out: the allocator cannot change before.
#[derive(Debug)]
#[must_use = "nothing is given before it is committed"]
pub struct Prepared<'a, O: Owner> {
    allocator: &'a mut Allocator<O>,
    owner: &'a O,
    terms: &'a Terms,
    plan: Plan,
}

impl<O: Owner> Prepared<'_, O> {
    /// What the owner is to get.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Gives it. What the plan leaves is not released.
    pub fn commit(self) -> Plan {
        let Self { allocator, owner, terms, plan } = self;
        let mut has_terms = false;
        for planned in &plan.addresses {
            match planned.how {
                How::Kept => {}
                How::New | How::Joined | How::Recalled => {
                    allocator.hold(planned.address, owner, terms);
                    has_terms = true;
                }
            }
        }
        if !has_terms {
            allocator.book.set_terms(owner, terms);
        }
        plan
    }
}

impl<O: Owner> Allocator<O> {
    /// An allocator in which nothing is in use.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let mut allocator = Self::default();
        allocator.replace_pools(pools);
        allocator
    }

    /// Sets which addresses can be given from now on. What is in use stays in use, what is kept back stays so. Of two
    /// pools with one name the last counts.
    pub fn replace_pools(&mut self, pools: impl IntoIterator<Item = Pool>) {
        let mut stocks = Stocks::new(pools);
        for address in self.book.addresses() {
            stocks.change(address, Use::Free(None), Use::Held);
        }
        for address in self.ward.addresses() {
            stocks.change(address, Use::Free(None), Use::Quarantined);
        }
        stocks.remember(&self.stocks);
        self.stocks = stocks;
    }

    /// The pools, in the order in which they are searched.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.stocks.all().iter().map(|stock| &stock.pool)
    }

    /// The pool that `address` belongs to.
    pub fn pool_of(&self, address: IpAddr) -> Option<&Pool> {
        self.stocks.of(address).map(|stock| &stock.pool)
    }

    /// Who holds `address`, in the order of joining: one that succeeds another of its party next to it, those that [gave
    /// way](Self::give_way) last.
    pub fn holders(&self, address: IpAddr) -> &[O] {
        self.book.holders(address)
    }

    /// What `owner` holds, in ascending order.
    pub fn held_by(&self, owner: &O) -> impl Iterator<Item = IpAddr> {
        self.book.held_by(owner).iter().copied()
    }

    /// The terms on which `owner` holds what it holds.
    pub fn terms(&self, owner: &O) -> Option<&Terms> {
        self.book.terms(owner)
    }

    /// Every address in use with its holders in the order of joining, in ascending order. Sorts them: O(n log n).
    pub fn in_use(&self) -> impl Iterator<Item = (IpAddr, &[O])> {
        self.book.iter()
    }

    /// Whether `address` can be given: it is in a pool, not reserved, and neither held nor kept back.
    pub fn is_free(&self, address: IpAddr) -> bool {
        self.stocks.is_free(address)
    }

    /// Why `address` is kept back.
    pub fn quarantined(&self, address: IpAddr) -> Option<&Quarantined<O>> {
        self.ward.get(address)
    }

    /// Every address that is kept back, in ascending order. Sorts them: O(n log n).
    pub fn in_quarantine(&self) -> impl Iterator<Item = (IpAddr, &Quarantined<O>)> {
        self.ward.iter()
    }

    /// Every address that is kept back for `owner`, because it or one that it succeeds let go of it, in ascending order.
    pub fn kept_back_for(&self, owner: &O) -> &[IpAddr] {
        self.ward.kept_for(owner)
    }

    /// Whether `address` is kept back for `owner`.
    pub fn is_kept_back_for(&self, address: IpAddr, owner: &O) -> bool {
        self.kept_back_for(owner).contains(&address)
    }

    /// Addresses whose quarantine is over at `now`, the earliest first. They stay in it until [`Self::lift`].
    pub fn due(&self, now: Moment) -> impl Iterator<Item = IpAddr> {
        self.ward.due(now)
    }

    /// When the next quarantine is over.
    pub fn next_due(&self) -> Option<Moment> {
        self.ward.next_due()
    }

    /// Counts of `pool`, exact; zero for a pool that does not exist.
    pub fn counts(&self, pool: &str, family: Family) -> Counts {
        self.stocks.named(pool).map_or_else(Counts::default, |index| self.stocks.all()[index].counts(family))
    }

    /// What `owner` would get. What it holds it keeps, unless it asks for something else (other addresses, another pool,
    /// fewer of them, another family) or changed its terms so that they do not fit one it shares it with: who changes
    /// leaves, the others stay.
    /// What it needs besides it takes, as far as the request allows, from what it is known to have, what is shared under
    /// its key, what those it succeeds hold and what is kept back for it (the lowest first), and what is free, in this
    /// order.
    ///
    /// # Errors
    /// [`AllocateError`] says why; what the owner holds it still holds then, see [`Self::collisions`].
    pub fn plan(&self, owner: &O, request: &Request) -> Result<Plan, AllocateError<O>> {
        planner::plan(self, owner, request)
    }

    /// Plans, so that the plan can be carried out.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn prepare<'a>(
        &'a mut self,
        owner: &'a O,
        request: &'a Request,
    ) -> Result<Prepared<'a, O>, AllocateError<O>> {
        let plan = self.plan(owner, request)?;
        Ok(Prepared { allocator: self, owner, terms: &request.terms, plan })
    }

    /// Addresses that `owner` holds and may not keep on these terms, ascending, each with a holder whose terms they do not
    /// fit and why.
    pub fn collisions(&self, owner: &O, terms: &Terms) -> Vec<Unshared<O>> {
        let collision = |address: IpAddr| {
            let (holder, why) = planner::clash(self, address, owner, terms)?;
            Some(Unshared { address, holder: holder.clone(), why })
        };
        self.held_by(owner).filter_map(collision).collect()
    }

    /// If `owner` does not fit others that hold `address`, it counts from now on as the last that joined them. So it is for one
    /// that changes its terms; after a restart it has to be said of those that changed meanwhile.
    pub fn give_way(&mut self, address: IpAddr, owner: &O) {
        self.book.give_way(address, owner);
    }

    /// Notes that `owner` holds `address`, in a pool or not: it is known to have it. Joins others if the terms of all
    /// allow it.
    pub fn adopt(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> Adopted<O> {
        if self.ward.get(address).is_some() {
            return Adopted::Quarantined;
        }
        if self.holders(address).is_empty() {
            self.hold(address, owner, terms);
            return Adopted::New;
        }
        match planner::clash(self, address, owner, terms) {
            Some((holder, _)) if !self.holders(address).contains(owner) => {
                Adopted::Conflict { holder: holder.clone() }
            }
            Some(_) | None => self.adopt_together(address, owner, terms),
        }
    }

    /// Notes that `owner` holds `address`, together with those who do and whatever the terms: the cluster shows it so.
    /// An address that was kept back is so no more.
    pub fn adopt_together(&mut self, address: IpAddr, owner: &O, terms: &Terms) -> Adopted<O> {
        let holders = self.holders(address);
        if holders.contains(owner) {
            self.book.set_terms(owner, terms);
            return Adopted::Already;
        }
        let adopted = if holders.is_empty() { Adopted::New } else { Adopted::Joined };
        self.hold(address, owner, terms);
        adopted
    }

    /// `owner` uses what it holds on other terms. It holds it still, whoever shares it; where they do not fit it [gives
    /// way](Self::give_way), and [`Self::collisions`] tells what it may not keep.
    pub fn set_terms(&mut self, owner: &O, terms: &Terms) {
        self.book.set_terms(owner, terms);
    }

    fn hold(&mut self, address: IpAddr, owner: &O, terms: &Terms) {
        let shared = self.book.join(address, owner, terms);
        if self.ward.remove(address).is_some() {
            self.stocks.change(address, Use::Quarantined, Use::Held);
        } else if !shared {
            self.stocks.change(address, Use::Free(None), Use::Held);
        }
    }

    /// `owner` lets go of `address`. If nobody else holds it, it is kept back as long as its pool says, or for
    /// [`Policy::QUARANTINE`] if it is in no pool.
    pub fn release(&mut self, address: IpAddr, owner: &O, now: Moment) -> Released {
        match self.book.leave(address, owner) {
            None => Released::NotHeld,
            Some(true) => Released::StillShared,
            Some(false) => {
                let time = self.pool_of(address).map_or(Policy::QUARANTINE, |pool| pool.policy.quarantine);
                if time < Duration::from_millis(1) {
                    self.stocks.change(address, Use::Held, Use::Free(Some(now)));
                    return Released::Free;
                }
                let until = now.after(time);
                let former = vec![owner.clone()];
                self.ward.insert(address, Quarantined { former, until, reason: Reason::Released });
                self.stocks.change(address, Use::Held, Use::Quarantined);
                Released::Quarantined { until }
            }
        }
    }

    /// `owner` does not hold `address`, and in truth never had it: nobody used it, so that it is not kept back. Says
    /// whether it was thought to hold it.
    pub fn disown(&mut self, address: IpAddr, owner: &O) -> bool {
        match self.book.leave(address, owner) {
            None => false,
            Some(true) => true,
            Some(false) => {
                self.stocks.change(address, Use::Held, Use::Free(None));
                true
            }
        }
    }

    /// Keeps `address` back. Who held it holds it no more.
    pub fn quarantine(&mut self, address: IpAddr, quarantined: Quarantined<O>) {
        let holders = self.book.holders(address).to_vec();
        for holder in &holders {
            self.book.leave(address, holder);
        }
        if !self.ward.insert(address, quarantined) {
            let from = if holders.is_empty() { Use::Free(None) } else { Use::Held };
            self.stocks.change(address, from, Use::Quarantined);
        }
    }

    /// Ends the quarantine of `address`, whether it is due or not; says whether there was one.
    pub fn lift(&mut self, address: IpAddr) -> bool {
        let Some(entry) = self.ward.remove(address) else { return false };
        let released = match entry.reason {
            Reason::Released => Some(entry.until),
            Reason::AddressTaken => None,
        };
        self.stocks.change(address, Use::Quarantined, Use::Free(released));
        true
    }
}

#[cfg(test)]
mod tests;
