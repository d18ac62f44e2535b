//! The kinds of faults: what they are called, how long they last, and which go together.

use std::{str::FromStr, time::Duration};

use anyhow::Context as _;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say what is done")]
pub enum Kind {
    CablePulled,
    CableFlapping,
    LossIncoming,
    LossOutgoing,
    /// The node is cut off from all others.
    Alone,
    /// The node is cut off with the client and the backend; the other nodes and the API server are together.
    WithClient,
    /// The LAN loses the multicast of VRRP between all nodes, and nothing else.
    MulticastFiltered,
    /// The other nodes receive no VRRP multicast of the node; it receives theirs.
    MulticastUnheard,
    /// The node and the next one lose each other's multicast; the third exchanges it with both.
    MulticastLostBetweenTwo,
    AgentKilled,
    AgentStopped,
    AgentFrozen,
    /// Its threads, real-time ones too, share a processor with one of a higher real-time priority that never pauses.
    AgentStarved,
    /// Each process of the node is killed; its kernel, with its rules and connections, lives.
    HostKilled,
    /// The same, with the cable, and its kernel knows nothing of before when it is back.
    NodePoweredOff,
    ProcessorsBusy,
    ApiServerStopped,
    ApiServerFrozen,
    /// It stands still for four fifths of the time.
    ApiServerSlow,
    EtcdStopped,
    EtcdFrozen,
    ControllerKilled,
    /// The leader is frozen until another controller leads, and then runs beside it.
    TwoControllers,
    DiskFull,
    /// The agent starts after a SIGKILL with random bytes as its state file, and at the end of the fault with a truncated one.
    StateCorrupted,
    Readdressed,
    InterfaceRenamed,
    StrangerHasAddress,
    StrangerHasVrid,
    KubeProxyKilled,
    /// A label excludes the node from load balancers.
    NodeExcluded,
    /// The cluster autoscaler is about to delete the node.
    NodeTainted,
    /// The node is cordoned, and by its Announcement the addresses of such a node yield.
    NodeCordoned,
    /// Its object is deleted under the agent that runs, and written again.
    NodeDeleted,
    /// It leaves the cluster, agent and objects, and joins it again.
    NodeJoins,
    /// The one pod of a `Local` Service goes from node to node.
    LocalRollout,
    /// One of the pods of the `Local` Service whose addresses the nodes share terminates, and another is ready there.
    SharedPodEnds,
    /// The Announcement changes in a field that a virtual router cannot adopt while it runs.
    AnnouncementChanged,
    /// The nodes get another key, and sign with it.
    KeysChanged,
    /// The Secret of the keys is deleted, and made again with the same content.
    KeysGone,
    /// A check on the node passes for a second, and fails for one and a half.
    CheckToggles,
}

impl Kind {
    /// In the order of the table. The last but two leaves the adverts signed.
    pub const ALL: [Self; 41] = [
        Self::CablePulled,
        Self::CableFlapping,
        Self::LossIncoming,
        Self::LossOutgoing,
        Self::Alone,
        Self::WithClient,
        Self::MulticastFiltered,
        Self::MulticastUnheard,
        Self::MulticastLostBetweenTwo,
        Self::AgentKilled,
        Self::AgentStopped,
        Self::AgentFrozen,
        Self::AgentStarved,
        Self::HostKilled,
        Self::NodePoweredOff,
        Self::ProcessorsBusy,
        Self::ApiServerStopped,
        Self::ApiServerFrozen,
        Self::ApiServerSlow,
        Self::EtcdStopped,
        Self::EtcdFrozen,
        Self::ControllerKilled,
        Self::TwoControllers,
        Self::DiskFull,
        Self::StateCorrupted,
        Self::Readdressed,
        Self::InterfaceRenamed,
        Self::StrangerHasAddress,
        Self::StrangerHasVrid,
        Self::KubeProxyKilled,
        Self::NodeExcluded,
        Self::NodeTainted,
        Self::NodeCordoned,
        Self::NodeDeleted,
        Self::NodeJoins,
        Self::LocalRollout,
        Self::SharedPodEnds,
        Self::AnnouncementChanged,
        Self::KeysChanged,
        Self::KeysGone,
        Self::CheckToggles,
    ];

    /// Faults of every run of the tests, which cost no client anything.
    pub const HARMLESS: [Self; 4] =
        [Self::ApiServerStopped, Self::EtcdStopped, Self::ControllerKilled, Self::AnnouncementChanged];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CablePulled => "cable pulled",
            Self::CableFlapping => "cable flapping",
            Self::LossIncoming => "one-way loss, what it is sent",
            Self::LossOutgoing => "one-way loss, what it sends",
            Self::Alone => "partition, client on the other side",
            Self::WithClient => "partition, client on its side",
            Self::MulticastFiltered => "multicast filtered",
            Self::MulticastUnheard => "one-way multicast loss, what it sends",
            Self::MulticastLostBetweenTwo => "multicast lost between two nodes",
            Self::AgentKilled => "agent killed (SIGKILL)",
            Self::AgentStopped => "agent stopped (SIGTERM)",
            Self::AgentFrozen => "agent frozen (SIGSTOP)",
            Self::AgentStarved => "agent without a processor",
            Self::HostKilled => "all processes of the node killed",
            Self::NodePoweredOff => "node powered off and on",
            Self::ProcessorsBusy => "all processors busy",
            Self::ApiServerStopped => "API server stopped",
            Self::ApiServerFrozen => "API server frozen",
            Self::ApiServerSlow => "API server slow",
            Self::EtcdStopped => "etcd stopped",
            Self::EtcdFrozen => "etcd frozen",
            Self::ControllerKilled => "controller killed",
            Self::TwoControllers => "two controllers at once",
            Self::DiskFull => "disk of the state full, agent killed",
            Self::StateCorrupted => "state file corrupted, agent killed",
            Self::Readdressed => "node re-addressed",
            Self::InterfaceRenamed => "interface renamed",
            Self::StrangerHasAddress => "a stranger takes the address",
            Self::StrangerHasVrid => "a stranger takes the VRID",
            Self::KubeProxyKilled => "kube-proxy killed",
            Self::NodeExcluded => "node drained, by label",
            Self::NodeTainted => "node drained, by taint",
            Self::NodeCordoned => "node cordoned, its addresses yield",
            Self::NodeDeleted => "Node deleted and written again",
            Self::NodeJoins => "node leaves the cluster and joins it",
            Self::LocalRollout => "pod of a Local Service rolled",
            Self::SharedPodEnds => "pod of a shared Service terminates",
            Self::AnnouncementChanged => "Announcement changed",
            Self::KeysChanged => "keys changed",
            Self::KeysGone => "keys deleted and put back",
            Self::CheckToggles => "check toggling",
        }
    }

    /// Returns the place of the fault. Two faults of one place are never present together.
    fn place(self) -> &'static str {
        match self {
            Self::CablePulled | Self::CableFlapping => "cable",
            Self::LossIncoming => "incoming",
            Self::LossOutgoing => "outgoing",
            Self::Alone | Self::WithClient => "LAN",
            Self::MulticastFiltered | Self::MulticastUnheard | Self::MulticastLostBetweenTwo => "multicast",
            Self::AgentKilled
            | Self::AgentStopped
            | Self::AgentFrozen
            | Self::AgentStarved
            | Self::DiskFull
            | Self::StateCorrupted => "agent",
            Self::HostKilled | Self::NodePoweredOff => "node",
            Self::ProcessorsBusy => "processors",
            Self::ApiServerStopped
            | Self::ApiServerFrozen
            | Self::ApiServerSlow
            | Self::EtcdStopped
            | Self::EtcdFrozen => "API server",
            Self::ControllerKilled | Self::TwoControllers => "controller",
            Self::Readdressed | Self::InterfaceRenamed => "address",
            Self::StrangerHasAddress => "stranger's address",
            Self::StrangerHasVrid => "stranger's VRID",
            Self::KubeProxyKilled => "kube-proxy",
            Self::NodeExcluded
            | Self::NodeTainted
            | Self::NodeCordoned
            | Self::NodeDeleted
            | Self::NodeJoins => "Node",
            Self::LocalRollout => "pods",
            Self::SharedPodEnds => "pods of the shared Service",
            Self::AnnouncementChanged => "Announcement",
            Self::KeysChanged | Self::KeysGone => "keys",
            Self::CheckToggles => "check",
        }
    }

    /// Returns true if the cluster has one such place, not one on each node.
    fn is_of_all(self) -> bool {
        match self {
            Self::Alone
            | Self::WithClient
            | Self::MulticastFiltered
            | Self::MulticastUnheard
            | Self::MulticastLostBetweenTwo
            | Self::AgentStarved
            | Self::ProcessorsBusy
            | Self::ApiServerStopped
            | Self::ApiServerFrozen
            | Self::ApiServerSlow
            | Self::EtcdStopped
            | Self::EtcdFrozen
            | Self::ControllerKilled
            | Self::TwoControllers
            | Self::StrangerHasAddress
            | Self::StrangerHasVrid
            | Self::LocalRollout
            | Self::SharedPodEnds
            | Self::AnnouncementChanged
            | Self::KeysChanged
            | Self::KeysGone
            | Self::CheckToggles => true,
            Self::CablePulled
            | Self::CableFlapping
            | Self::LossIncoming
            | Self::LossOutgoing
            | Self::AgentKilled
            | Self::AgentStopped
            | Self::AgentFrozen
            | Self::HostKilled
            | Self::NodePoweredOff
            | Self::DiskFull
            | Self::StateCorrupted
            | Self::Readdressed
            | Self::InterfaceRenamed
            | Self::KubeProxyKilled
            | Self::NodeExcluded
            | Self::NodeTainted
            | Self::NodeCordoned
            | Self::NodeDeleted
            | Self::NodeJoins => false,
        }
    }

    /// Returns true if running nodes may not receive each other's adverts meanwhile, so that two may hold an address. While
    /// multicast is lost, nodes that were parted before find each other only after seconds (`docs/announcements.md`).
    pub(super) fn deafens(self) -> bool {
        matches!(
            self,
            Self::MulticastFiltered
                | Self::MulticastUnheard
                | Self::MulticastLostBetweenTwo
                | Self::CablePulled
                | Self::CableFlapping
                | Self::LossIncoming
                | Self::LossOutgoing
                | Self::Alone
                | Self::WithClient
                | Self::InterfaceRenamed
        )
    }

    /// Returns true if the fault covers the whole node, which then may have no other fault.
    fn is_of_whole_node(self) -> bool {
        matches!(self, Self::HostKilled | Self::NodePoweredOff | Self::NodeJoins)
    }

    /// Returns true if no address prefers the node afterwards, until the controller gives it its share again.
    pub(super) fn costs_the_share(self) -> bool {
        matches!(self, Self::NodeDeleted | Self::NodeJoins)
    }

    /// Returns true if both faults may not be in one storm. A node that is cut off while its Node is deleted keeps its old
    /// state when it is back, beside the new Active, until it reaches the API server. No node obeys one that changes its
    /// address while the API server does not answer (`docs/limits.md`).
    pub(super) fn is_apart_from(self, other: Self) -> bool {
        let cuts_off = |kind: Self| kind.deafens() && !kind.is_harmless();
        let is_obeyed_by_nobody =
            |one: Self, other: Self| one == Self::Readdressed && other.silences_api_server();
        self.costs_the_share() && cuts_off(other)
            || cuts_off(self) && other.costs_the_share()
            || is_obeyed_by_nobody(self, other)
            || is_obeyed_by_nobody(other, self)
    }

    /// Returns true if the API server does not answer during the fault.
    fn silences_api_server(self) -> bool {
        matches!(self, Self::ApiServerStopped | Self::ApiServerFrozen | Self::EtcdStopped | Self::EtcdFrozen)
    }

    /// Returns true if the fault ends with a start that takes minutes without a free processor.
    fn starts_cluster(self) -> bool {
        matches!(self, Self::ApiServerStopped | Self::EtcdStopped | Self::NodePoweredOff)
    }

    /// Returns true if the fault begins or ends by way of the API server.
    fn needs_api_server(self) -> bool {
        matches!(
            self,
            // (Its kube-proxy is waited for.)
            Self::NodePoweredOff
                | Self::NodeExcluded
                | Self::NodeTainted
                | Self::NodeCordoned
                | Self::NodeDeleted
                | Self::NodeJoins
                | Self::LocalRollout
                | Self::SharedPodEnds
                | Self::AnnouncementChanged
                | Self::KeysChanged
                | Self::CheckToggles
        )
    }

    /// Returns true if no client may lose a request or a connection: no node dies, and addresses move in an orderly way.
    pub(super) fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::MulticastFiltered
                | Self::MulticastUnheard
                | Self::MulticastLostBetweenTwo
                | Self::AgentStopped
                | Self::ApiServerStopped
                | Self::ApiServerFrozen
                | Self::ApiServerSlow
                | Self::EtcdStopped
                | Self::EtcdFrozen
                | Self::ControllerKilled
                | Self::TwoControllers
                | Self::StrangerHasVrid
                | Self::NodeExcluded
                | Self::NodeTainted
                | Self::NodeCordoned
                | Self::NodeDeleted
                | Self::NodeJoins
                | Self::SharedPodEnds
                | Self::AnnouncementChanged
                | Self::KeysChanged
                | Self::KeysGone
                | Self::CheckToggles
        )
    }

    /// Returns the time that the fault has to last to take full effect.
    pub(super) fn length(self) -> Duration {
        Duration::from_secs(match self {
            // The node gives up on it after 15 s.
            Self::KubeProxyKilled => 20,
            Self::AgentStarved => 2,
            // The lease is over after 5 s.
            Self::TwoControllers => 8,
            // Agents look each 5 s.
            Self::KeysChanged | Self::KeysGone => 7,
            // A failure counts for a minute.
            Self::CheckToggles => 65,
            _ => 3,
        })
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    /// By what it is called in the code, as `KeysGone`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let called = |kind: &Self| format!("{kind:?}") == text;
        Self::ALL.into_iter().find(called).with_context(|| {
            let all = Self::ALL.map(|kind| format!("{kind:?}")).join(", ");
            format!("no fault is called {text:?}; there are {all}")
        })
    }
}

/// A fault, on a node where there is one of its place on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) node: &'static str,
}

impl Fault {
    /// Returns true if both faults may be present at the same time.
    pub(super) fn goes_with(self, other: Self) -> bool {
        for (one, two) in [(self, other), (other, self)] {
            if one.kind == Kind::ProcessorsBusy && two.kind.starts_cluster()
                || one.kind.needs_api_server() && two.kind.silences_api_server()
                || one.kind.is_of_whole_node() && one.node == two.node
            {
                return false;
            }
        }
        let is_apart = self.node != other.node && !self.kind.is_of_all() && !other.kind.is_of_all();
        self.kind.place() != other.kind.place() || is_apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_together(one: (Kind, &'static str), other: (Kind, &'static str)) -> bool {
        let [one, other] = [one, other].map(|(kind, node)| Fault { kind, node });
        assert_eq!(one.goes_with(other), other.goes_with(one), "{one:?}, {other:?}");
        one.goes_with(other)
    }

    #[test]
    fn faults_of_one_place_are_never_at_once_nor_what_needs_another_thing_that_is_broken() {
        for (one, other, expected) in [
            ((Kind::CablePulled, "n1"), (Kind::CableFlapping, "n1"), false),
            ((Kind::CablePulled, "n1"), (Kind::CableFlapping, "n2"), true),
            ((Kind::Alone, "n1"), (Kind::WithClient, "n2"), false),
            ((Kind::NodePoweredOff, "n1"), (Kind::CablePulled, "n1"), false),
            ((Kind::NodePoweredOff, "n1"), (Kind::CablePulled, "n2"), true),
            ((Kind::NodePoweredOff, "n1"), (Kind::EtcdStopped, "n2"), false),
            ((Kind::HostKilled, "n1"), (Kind::EtcdStopped, "n2"), true),
            ((Kind::KeysChanged, "n1"), (Kind::ApiServerFrozen, "n2"), false),
            ((Kind::KeysChanged, "n1"), (Kind::ApiServerSlow, "n2"), true),
            ((Kind::ProcessorsBusy, "n1"), (Kind::EtcdStopped, "n2"), false),
            ((Kind::NodeDeleted, "n1"), (Kind::NodeExcluded, "n1"), false),
            ((Kind::NodeDeleted, "n1"), (Kind::NodeCordoned, "n2"), true),
            ((Kind::NodeJoins, "n1"), (Kind::AgentKilled, "n1"), false),
            ((Kind::NodeJoins, "n1"), (Kind::AgentKilled, "n2"), true),
            ((Kind::KeysGone, "n1"), (Kind::KeysChanged, "n2"), false),
            ((Kind::KeysGone, "n1"), (Kind::EtcdStopped, "n2"), true),
        ] {
            assert_eq!(go_together(one, other), expected, "{one:?}, {other:?}");
        }
    }

    #[test]
    fn faults_after_which_two_nodes_have_an_address_until_the_api_server_tells_them_are_in_no_storm_together()
    {
        for (one, other, expected) in [
            (Kind::NodeDeleted, Kind::Alone, true),
            (Kind::CablePulled, Kind::NodeJoins, true),
            (Kind::NodeDeleted, Kind::MulticastUnheard, false),
            (Kind::NodeCordoned, Kind::Alone, false),
            (Kind::Readdressed, Kind::EtcdFrozen, true),
            (Kind::ApiServerStopped, Kind::Readdressed, true),
            (Kind::Readdressed, Kind::ApiServerSlow, false),
        ] {
            assert_eq!(one.is_apart_from(other), expected, "{one:?}, {other:?}");
        }
    }

    #[test]
    fn each_fault_is_found_by_its_name_and_what_is_none_is_refused_with_all_names() {
        for kind in Kind::ALL {
            assert_eq!(format!("{kind:?}").parse::<Kind>().ok(), Some(kind));
        }
        let refusal = "keys gone".parse::<Kind>().map_err(|error| error.to_string());
        assert!(refusal.is_err_and(|error| error.contains("keys gone") && error.contains("KeysGone")));
    }
}
