//! Which controllers run: the flag `--controllers` (service-contract §5.2).

use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// A controller of a cloud-controller-manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerName {
    /// Initializes nodes and keeps their addresses.
    CloudNode,
    /// Deletes Nodes whose machine is gone, and taints those whose machine is shut down.
    CloudNodeLifecycle,
    /// Load balancers for Services.
    Service,
    /// Routes between pods of different nodes. Known by name only: pod routes are the network plugin's.
    Route,
}

impl ControllerName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CloudNode, Self::CloudNodeLifecycle, Self::Service, Self::Route];

    /// The name, which is that of its health check too.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node-controller",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-lb-controller",
            Self::Route => "node-route-controller",
        }
    }

    /// The older, shorter name.
    pub const fn alias(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle",
            Self::Service => "service",
            Self::Route => "route",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| [known.as_str(), known.alias()].contains(&name))
    }
}

/// The list names a controller that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not in the list of known controllers; known are {}", known())]
pub struct UnknownController {
    name: String,
}

fn known() -> String {
    ControllerName::ALL.map(ControllerName::as_str).join(", ")
}

/// Controllers that the list selects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Controllers to start.
    pub enabled: BTreeSet<ControllerName>,
    /// Enabled controllers that the list names explicitly instead of by `*`: leaving one of them out is worth a warning.
    pub named: BTreeSet<ControllerName>,
}

/// Reads a list: `*` is all that it does not name, `foo` is foo, `-foo` is not foo. What is named first counts.
pub fn select<S: AsRef<str>>(list: &[S]) -> Result<Selection, UnknownController> {
    let mut selection = Selection::default();
    let mut decided = BTreeSet::new();
    let mut all = false;
    for entry in list.iter().map(|entry| entry.as_ref().trim()).filter(|entry| !entry.is_empty()) {
        if entry == "*" {
            all = true;
            continue;
        }
        let (name, wanted) = entry.strip_prefix('-').map_or((entry, true), |name| (name, false));
        let Some(controller) = ControllerName::named(name) else {
            return Err(UnknownController { name: name.to_owned() });
        };
        if decided.insert(controller) && wanted {
            selection.named.insert(controller);
            selection.enabled.insert(controller);
        }
    }
    if all {
        selection.enabled.extend(ControllerName::ALL.into_iter().filter(|one| !decided.contains(one)));
    }
    Ok(selection)
}
