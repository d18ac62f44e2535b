//! Turns changes in the copies of the cluster's objects into this node's desired state.

use std::sync::Arc;
use std::time::Instant;

use windlass_api::{VirtualIP, VirtualRouter};
use windlass_ccm::store::Informer;

use super::changes::Changed;
use super::desired::{Desired, Problem};
use super::engine_state::EngineState;
use super::hold::{Hold, News, Objects};
use super::index::{Index, Part, Update};
use crate::keys::{KeyFolder, Keys};

/// Copies of the cluster's objects, and the decisions made from them.
pub(super) struct Decider {
    node: String,
    routers: Informer<VirtualRouter>,
    vips: Informer<VirtualIP>,
    engine_state: Arc<EngineState>,
    /// Keys that this node has. Code that changes them requests a full recomputation.
    pub(super) keys: Arc<Keys>,
    /// `None` before the first full computation.
    index: Option<Index>,
    /// Addresses that are announced although their objects are gone.
    pub(super) hold: Hold,
    /// Report about the held addresses.
    pub(super) news: Option<News>,
}

impl Decider {
    /// Creates the decisions of a node about these copies. Nothing is decided yet.
    pub(super) fn new(
        node: &str,
        routers: Informer<VirtualRouter>,
        vips: Informer<VirtualIP>,
        engine_state: &Arc<EngineState>,
        keys: &KeyFolder,
        hold: Hold,
    ) -> Self {
        let (node, engine_state, keys) = (node.to_owned(), Arc::clone(engine_state), Arc::clone(keys.keys()));
        Self { node, routers, vips, engine_state, keys, index: None, hold, news: None }
    }

    /// Returns true once both lists are complete; acting on an incomplete copy would withdraw addresses.
    pub(super) fn is_complete(&self) -> bool {
        self.routers.is_synced() && self.vips.is_synced()
    }

    /// Drops the decisions and held addresses of another cluster.
    pub(super) fn forget(&mut self, hold: Hold) {
        (self.index, self.hold, self.news) = (None, hold, None);
    }

    /// Has the next decision look at all objects, whatever changed.
    pub(super) fn forget_index(&mut self) {
        self.index = None;
    }

    /// Updates `desired` after these objects changed. Returns `None` if it is unchanged.
    pub(super) fn decide(
        &mut self,
        changed: &Changed,
        desired: &mut Option<Arc<Desired>>,
        now: Instant,
    ) -> Option<Update> {
        let mut part = Part::default();
        if let Some(desired) = desired
            && self.hold.is_idle(changed)
            && self.decide_part(changed, desired, &mut part)
        {
            return (!part.is_empty()).then_some(Update::Part(part));
        }
        let (routers, vips) = (self.routers.list(), self.vips.list());
        let answered = self.engine_state.answered();
        let (index, mut new) = Index::new(&self.node, &routers, &vips, Arc::clone(&answered), &self.keys);
        self.index = Some(index);
        if let Some(before) = desired {
            let objects = Objects { node: &self.node, routers: &routers, vips: &vips, answered: &answered };
            let (held, news) = self.hold.apply(before, new, &objects, changed, now);
            // A key may be gone, too.
            new = held.withhold(|id| self.keys.has(id));
            self.news = news;
        }
        // What was changed in part has not been given to the engine.
        if part.is_empty() && desired.as_deref() == Some(&new) {
            return None;
        }
        log_new(desired.as_ref().map_or(&[], |old| &old.problems), &new.problems);
        *desired = Some(Arc::new(new));
        Some(Update::Whole)
    }

    /// Returns true if it was enough to process the changed objects.
    fn decide_part(&mut self, changed: &Changed, desired: &mut Arc<Desired>, part: &mut Part) -> bool {
        let Some(index) =
            self.index.as_mut().filter(|index| !changed.all && index.is_of(&self.engine_state.answered()))
        else {
            return false;
        };
        let router = |name: &String| self.routers.get(name);
        if !changed.routers.iter().all(|name| index.is_as_known(name, router(name).as_deref())) {
            return false;
        }
        let mut vips = changed.vips.iter().map(|name| (name, self.vips.get(name)));
        vips.all(|(name, vip)| index.take(name, vip.as_deref(), desired, part))
    }
}

/// Logs each new problem once.
fn log_new(old: &[Problem], new: &[Problem]) {
    for problem in new.iter().filter(|problem| old.binary_search(problem).is_err()) {
        tracing::warn!(object = %problem.object, reason = %problem.reason, "left out");
    }
}
