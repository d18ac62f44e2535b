//! From what changed in the copies of the cluster's objects to what this node is to do.

use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use windlass_api::{VirtualIP, VirtualRouter};

use super::board::Board;
use super::desired::{Desired, Problem};
use super::index::{Index, Part, Update};
use super::news::Looks;

/// The copies, and what was decided from them.
pub(super) struct Decider {
    pub(super) node: String,
    pub(super) routers: Store<VirtualRouter>,
    pub(super) vips: Store<VirtualIP>,
    pub(super) board: Arc<Board>,
    /// `None`: nothing yet.
    pub(super) index: Option<Index>,
}

impl Decider {
    /// The truth is what is known once both lists are complete; half of it would withdraw addresses.
    pub(super) fn is_complete(&self) -> bool {
        is_complete(&self.routers) && is_complete(&self.vips)
    }

    /// Brings `desired` up to date after these objects changed. `None`: it is as it was.
    pub(super) fn decide(&mut self, looks: &Looks, desired: &mut Option<Arc<Desired>>) -> Option<Update> {
        let mut part = Part::default();
        if let Some(desired) = desired
            && self.decide_part(looks, desired, &mut part)
        {
            return (!part.is_empty()).then_some(Update::Part(part));
        }
        let (routers, vips) = (self.routers.state(), self.vips.state());
        let (index, new) = Index::new(&self.node, &routers, &vips, self.board.answered());
        self.index = Some(index);
        // What was changed in part has not been given to the engine.
        if part.is_empty() && desired.as_deref() == Some(&new) {
            return None;
        }
        complain(desired.as_ref().map_or(&[], |old| &old.problems), &new.problems);
        *desired = Some(Arc::new(new));
        Some(Update::Whole)
    }

    /// Whether it was enough to look at what changed.
    fn decide_part(&mut self, looks: &Looks, desired: &mut Arc<Desired>, part: &mut Part) -> bool {
        let Some(index) =
            self.index.as_mut().filter(|index| !looks.all && index.is_of(&self.board.answered()))
        else {
            return false;
        };
        let router = |name: &String| self.routers.get(&ObjectRef::new(name));
        if !looks.routers.iter().all(|name| index.is_as_known(name, router(name).as_deref())) {
            return false;
        }
        let mut vips = looks.vips.iter().map(|name| (name, self.vips.get(&ObjectRef::new(name))));
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
fn complain(old: &[Problem], new: &[Problem]) {
    for problem in new.iter().filter(|problem| old.binary_search(problem).is_err()) {
        tracing::warn!(object = %problem.object, reason = %problem.reason, "left out");
    }
}
