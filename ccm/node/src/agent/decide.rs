//! From what changed in the copies of the cluster's objects to what this node is to do.

use std::sync::Arc;
use std::time::Instant;

use kube::runtime::reflector::{ObjectRef, Store};
use windlass_api::{VirtualIP, VirtualRouter};

use super::changes::Changed;
use super::desired::{Desired, Problem};
use super::engine_state::EngineState;
use super::hold::{Hold, News, Objects};
use super::index::{Index, Part, Update};
use super::keys::Keys;

/// The copies, and what was decided from them.
pub(super) struct Decider {
    pub(super) node: String,
    pub(super) routers: Store<VirtualRouter>,
    pub(super) vips: Store<VirtualIP>,
    pub(super) engine_state: Arc<EngineState>,
    /// The keys that this node has. Whoever changes them asks for a look at all objects.
    pub(super) keys: Arc<Keys>,
    /// `None`: nothing yet.
    pub(super) index: Option<Index>,
    /// What is announced although its objects are gone.
    pub(super) hold: Hold,
    /// What is to be told of that.
    pub(super) news: Option<News>,
}

impl Decider {
    /// The truth is what is known once both lists are complete; half of it would withdraw addresses.
    pub(super) fn is_complete(&self) -> bool {
        is_complete(&self.routers) && is_complete(&self.vips)
    }

    /// Forgets what was decided, and what is held: it is of another cluster.
    pub(super) fn forget(&mut self, hold: Hold) {
        (self.index, self.hold, self.news) = (None, hold, None);
    }

    /// Brings `desired` up to date after these objects changed. `None`: it is as it was.
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
        let (routers, vips) = (self.routers.state(), self.vips.state());
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

    /// Whether it was enough to look at what changed.
    fn decide_part(&mut self, changed: &Changed, desired: &mut Arc<Desired>, part: &mut Part) -> bool {
        let Some(index) =
            self.index.as_mut().filter(|index| !changed.all && index.is_of(&self.engine_state.answered()))
        else {
            return false;
        };
        let router = |name: &String| self.routers.get(&ObjectRef::new(name));
        if !changed.routers.iter().all(|name| index.is_as_known(name, router(name).as_deref())) {
            return false;
        }
        let mut vips = changed.vips.iter().map(|name| (name, self.vips.get(&ObjectRef::new(name))));
        vips.all(|(name, vip)| index.take(name, vip.as_deref(), desired, part))
    }
}

fn is_complete<K>(store: &Store<K>) -> bool
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    futures::FutureExt::now_or_never(store.wait_until_ready()).is_some_and(|ready| ready.is_ok())
}

/// Says once what is new among the problems.
fn log_new(old: &[Problem], new: &[Problem]) {
    for problem in new.iter().filter(|problem| old.binary_search(problem).is_err()) {
        tracing::warn!(object = %problem.object, reason = %problem.reason, "left out");
    }
}
