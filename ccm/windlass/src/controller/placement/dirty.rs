//! What changed since the cluster was seen to be as planned.
//!
//! A whole plan looks at every VIP. Of ten thousand Services that come one after another, each finds its place when it is
//! made, and each is a reason for a pass of the planner: the passes together would look at each VIP thousands of times. So
//! once a whole plan has found nothing to write, passes look only at what changed, as long as that can be told one by one:
//! VIPs that joined or left others of their kind, and nodes. Everything else asks for a whole plan. So does a pass that wrote
//! what it should not have had to, or could not write.

use std::collections::BTreeSet;

/// What the next pass has to look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Whole,
    /// Only this.
    Part(Part),
}

/// What can be looked at by itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Names of VIPs.
    pub(crate) vips: BTreeSet<String>,
    /// The virtual routers that these nodes have to do with.
    pub(crate) nodes: BTreeSet<String>,
    /// These virtual routers.
    pub(crate) routers: BTreeSet<String>,
}

/// What a whole plan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanResult {
    /// Something to write, or a cluster in which one change may have others in its train.
    ToWrite,
    /// The cluster is as planned, but some VIP has no place.
    Incomplete,
    /// The cluster is as planned.
    Settled,
}

/// The changes.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// Of the last whole plan, if nothing that it takes for granted has changed since.
    result: PlanResult,
    part: Part,
}

impl Default for Dirty {
    fn default() -> Self {
        Self { result: PlanResult::ToWrite, part: Part::default() }
    }
}

impl Dirty {
    /// Something changed that concerns all.
    pub(crate) fn everything(&mut self) {
        *self = Self::default();
    }

    /// A VIP changed, or what is to be written into it, but not where it belongs.
    pub(crate) fn vip(&mut self, name: String) {
        match self.result {
            PlanResult::ToWrite => {}
            PlanResult::Incomplete | PlanResult::Settled => {
                self.part.vips.insert(name);
            }
        }
    }

    /// A node came, went, became stable or unstable, or has other addresses.
    pub(crate) fn node(&mut self, name: String) {
        self.affects_rankings(|part| {
            part.nodes.insert(name);
        });
    }

    /// The ranking of a virtual router is another one.
    pub(crate) fn router(&mut self, name: String) {
        self.affects_rankings(|part| {
            part.routers.insert(name);
        });
    }

    fn affects_rankings(&mut self, note: impl FnOnce(&mut Part)) {
        match self.result {
            PlanResult::ToWrite => {}
            // It may bring what a VIP lacks.
            PlanResult::Incomplete => self.everything(),
            PlanResult::Settled => note(&mut self.part),
        }
    }

    /// What is to be looked at now. Until the next [`Self::planned`] or change, it is taken to have been seen to.
    pub(crate) fn take(&mut self) -> Scope {
        match self.result {
            PlanResult::ToWrite => Scope::Whole,
            PlanResult::Incomplete | PlanResult::Settled => Scope::Part(std::mem::take(&mut self.part)),
        }
    }

    /// A whole plan was made.
    pub(crate) fn planned(&mut self, result: PlanResult) {
        *self = Self { result, ..Self::default() };
    }
}
