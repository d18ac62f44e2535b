//! Texts that users, their scripts and their alerts depend on: annotations, conditions, reasons and events. Each list names
//! all of its kind, so that no page of `docs/` can miss one.

/// Declares text constants, and the list of all of them.
macro_rules! identifiers {
    ($(#[$about:meta])* $all:ident: $($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $text;)+
        $(#[$about])*
        pub const $all: &[&str] = &[$($name),+];
    };
}

/// `spec.loadBalancerClass` of Services that Windlass always serves.
pub const LOAD_BALANCER_CLASS: &str = "windlass.dev/windlass";

identifiers! {
    /// Annotations of a Service.
    SERVICE_ANNOTATIONS:
    /// The addresses that the Service wants, as `192.0.2.10` or `192.0.2.10, 2001:db8::10`. As `spec.loadBalancerIP`, which
    /// Kubernetes has deprecated; both may be set if they agree.
    ANNOTATION_ADDRESSES = "windlass.dev/addresses";
    /// The `VirtualIPPool` that the Service's addresses must come from.
    ANNOTATION_POOL = "windlass.dev/pool";
    /// Number of addresses of each of its families that the Service requests, `"1"` to `"8"`. They are kept on different nodes as far as
    /// there are nodes.
    ANNOTATION_ADDRESS_COUNT = "windlass.dev/address-count";
    /// The Service may share its address with Services that have the same key and other ports.
    ANNOTATION_SHARING_KEY = "windlass.dev/sharing-key";
    /// Other namespaces, as `a, b`, whose Services may share the Service's address. Both sides must name each other.
    ANNOTATION_SHARE_WITH = "windlass.dev/share-with";
}

identifiers! {
    /// Annotations of a `VirtualIP`.
    VIRTUAL_IP_ANNOTATIONS:
    /// With the value `"true"`: its Services may be given another address once no pool holds it any more, even without `onRemoval: Move` of
    /// its pool.
    ANNOTATION_ALLOW_MOVE = "windlass.dev/allow-move";
}

identifiers! {
    /// Annotations of a [`VirtualRouter`](crate::VirtualRouter).
    VIRTUAL_ROUTER_ANNOTATIONS:
    /// The node that an admin wants to have its addresses, before all others that can serve them as well: `windlass move` writes it.
    ANNOTATION_PREFERRED_NODE = "windlass.dev/preferred-node";
    /// Number of times in a row that virtual routers of its segment left their VRIDs to foreign routers, this one's predecessor last. The
    /// controller writes it, and waits the longer before the next change.
    ANNOTATION_VRID_CHANGES = "windlass.dev/vrid-changes";
}

identifiers! {
    /// Conditions of a Service.
    SERVICE_CONDITIONS:
    /// `True` while clients reach the Service at every address that its status shows, as far as the controller knows; with
    /// a reason of [`address_allocated`].
    CONDITION_ADDRESS_ALLOCATED = "windlass.dev/AddressAllocated";
}

identifiers! {
    /// Conditions of a [`VirtualIP`](crate::VirtualIP).
    VIRTUAL_IP_CONDITIONS:
    /// `True` while some node answers for the address; with a reason of [`announced`].
    CONDITION_ANNOUNCED = "Announced";
    /// `True` while another node has the connections to the address, so that they continue if the announcing node dies; with a reason of
    /// [`connections_replicated`]. Absent where its Announcement has other `connections`,
    /// and on addresses of `Local` Services or that several nodes share.
    CONDITION_CONNECTIONS_REPLICATED = "ConnectionsReplicated";
    /// `True` while several nodes serve the address; with a reason of [`load_shared`]. Absent where `loadSharing`
    /// does not apply.
    CONDITION_LOAD_SHARED = "LoadShared";
}

identifiers! {
    /// Conditions of a [`VirtualIPPool`](crate::VirtualIPPool).
    POOL_CONDITIONS:
    /// `False` when part of it is not used; with a reason of [`pool_ready`].
    CONDITION_READY = "Ready";
    /// `True` while some node can announce each address of the pool; with a reason of [`pool_announceable`]. The message gives the share,
    /// the nodes and, if `False`, the remedy. Absent until an agent has reported its node's network.
    CONDITION_ANNOUNCEABLE = "Announceable";
    /// `True` while Services keep addresses that were given from it and that no pool holds any more.
    CONDITION_ADDRESSES_KEPT = "AddressesKept";
    /// `True` while another host of the LAN has addresses of it. On a [`VirtualIP`](crate::VirtualIP): while another host uses
    /// the address beside the node that announces it; with the reason [`REASON_DEFENDED`].
    CONDITION_ADDRESS_CONFLICT = "AddressConflict";
    /// `True` while Services list addresses of it in `spec.externalIPs` that they may not have.
    CONDITION_FOREIGN_EXTERNAL_IPS = "ForeignExternalIPs";
}

identifiers! {
    /// Conditions of an [`Announcement`](crate::Announcement).
    ANNOUNCEMENT_CONDITIONS:
    /// `True` while it applies to each virtual IP that it selects; with a reason of [`applied`].
    CONDITION_APPLIED = "Applied";
}

identifiers! {
    /// Conditions of a [`VirtualRouter`](crate::VirtualRouter).
    VIRTUAL_ROUTER_CONDITIONS:
    /// `False` while nodes do not receive the multicast of the Active node; with a reason of [`multicast_heard`]. Absent until that happens
    /// for the first time.
    CONDITION_MULTICAST_HEARD = "MulticastHeard";
}

/// Reasons of a Service's [`CONDITION_ADDRESS_ALLOCATED`].
///
/// `True`: its status shows one address or more, and each is announced as far as the controller knows; it may want more.
/// `False`: none is shown, or one that is shown is not announced, or the Service asks for what it cannot have.
pub mod address_allocated {
    identifiers! {
        /// All of them.
        ALL:
        /// `True`: it has every address it asks for.
        ALLOCATED = "Allocated";
        /// `False`: no address is announced, or one that the status shows is not. `True`: all that are shown are, and a further one
        /// that it asks for is not.
        NOT_ANNOUNCED = "NotAnnounced";
        /// `True`: a node announces each address that it has, and another host of the LAN uses one of them, too.
        ADDRESS_CONFLICT = "AddressConflict";
        /// `True`: a node announces each address that it has, and no node that may do so has a pod of it (`externalTrafficPolicy: Local`).
        NO_LOCAL_ENDPOINT = "NoLocalEndpoint";
        /// `True`: a node announces each address that it has, and no node has a subnet that holds one of them any more.
        SUBNET_GONE = "SubnetGone";
        /// `True`: it keeps an address that no pool holds any more.
        ADDRESS_OUTSIDE_POOLS = "AddressOutsidePools";
        /// `True`: it keeps an address that the pool which it names had when it was given, and has no more.
        ADDRESS_IN_OTHER_POOL = "AddressInOtherPool";
        /// `True`: it prefers both families, and no pool can give the second one.
        FAMILY_MISSING = "FamilyMissing";
        /// `False`: no pool that it may use has an address left, or there is no pool.
        NO_FREE_ADDRESS = "NoFreeAddress";
        /// `False`: it or its namespace has as many addresses as the pool allows.
        LIMIT_REACHED = "LimitReached";
        /// `False`: the pool it names does not exist.
        NO_SUCH_POOL = "NoSuchPool";
        /// `False`: a field or annotation of it is malformed or contradicts another.
        INVALID_REQUEST = "InvalidRequest";
        /// `False`: the address it names is held by another Service or host.
        ADDRESS_IN_USE = "AddressInUse";
        /// `False`: the Service whose address it is to share does not let it.
        SHARING_REFUSED = "SharingRefused";
        /// `False`: it may not use the pool it names, or any.
        POOL_NOT_ALLOWED = "PoolNotAllowed";
    }
}

/// Reasons of a VirtualIP's [`CONDITION_ANNOUNCED`].
pub mod announced {
    /// `True`: a node is Active for it and answers.
    pub const ACTIVE: &str = "Active";
    /// `False`, for the moment until its object goes: the address is in quarantine. No Service has it.
    pub const QUARANTINED: &str = "Quarantined";

    identifiers! {
        /// Reasons of `False` that an agent gives and that require an action.
        FAULTS:
        /// Another host of the LAN has the address.
        ADDRESS_TAKEN = "AddressTaken";
        /// A node's kernel answers for the address, or no host can have it.
        ADDRESS_REFUSED = "AddressRefused";
        /// Not everybody may use the address, and the node that would announce it cannot keep the others out.
        UNGUARDED = "Unguarded";
        /// The agent of the only node that may announce it was stopped.
        AGENT_STOPPED = "AgentStopped";
    }

    identifiers! {
        /// Reasons of `False` for an address that no virtual router carries.
        UNPLACED:
        /// No node has a subnet that holds the address.
        NO_SEGMENT = "NoSegment";
        /// No node that its Announcement selects has an interface that it names.
        NO_INTERFACE = "NoInterface";
        /// The nodes' addresses of the family are single ones, without a subnet.
        NO_SUBNET = "NoSubnet";
        /// The nodes cannot send IPv6 adverts there.
        NO_LINK_LOCAL_ADDRESS = "NoLinkLocalAddress";
        /// The segment has no VRID left.
        NO_VRID = "NoVRID";
        /// Not everybody may use it, and of the nodes that could announce it none has an agent that obeys that.
        AGENT_TOO_OLD = "AgentTooOld";
    }
}

/// Reasons of a VirtualIP's [`CONDITION_CONNECTIONS_REPLICATED`].
pub mod connections_replicated {
    /// `True`: some other node has them.
    pub const REPLICATED: &str = "Replicated";

    identifiers! {
        /// Reasons of `False`: the cluster or the Announcement does not allow it.
        OBSTACLES:
        /// Pods are reached by a tunnel, and whether answers of backends to the address would arrive outside of it cannot be asked.
        OVERLAY = "Overlay";
        /// Pods are reached by a tunnel, and no answer of their nodes arrives outside of it.
        NO_WAY_BACK = "NoWayBack";
        /// It is not known that kube-proxy serves the node in nftables or iptables mode.
        SERVICE_PROXY = "ServiceProxy";
        /// The agent's guard does nothing on the node.
        UNGUARDED = "Unguarded";
        /// No other node may announce the address.
        NO_OTHER_NODE = "NoOtherNode";
        /// The address is at the virtual MAC address.
        VIRTUAL_MAC_ADDRESS = "VirtualMACAddress";
    }

    identifiers! {
        /// Reasons of `False`: it fails.
        FAULTS:
        /// The node cannot read its routes.
        ROUTES_UNKNOWN = "RoutesUnknown";
        /// No other node has had all connections for ten seconds.
        NOT_IN_SYNC = "NotInSync";
        /// The kernel of the node, or a socket, does not allow replication of its connections.
        REPLICATION_FAILED = "ReplicationFailed";
    }
}

/// Reasons of a VirtualIP's [`CONDITION_LOAD_SHARED`].
pub mod load_shared {
    /// `True`: several nodes serve it.
    pub const SHARED: &str = "Shared";

    identifiers! {
        /// Reasons of `False`.
        FAULTS:
        /// Only one node that can take part has an endpoint.
        ONE_SERVER = "OneServer";
        /// No node that can take part has an endpoint.
        NO_SERVER = "NoServer";
        /// Agents of nodes with endpoints do not report that they can share.
        AGENT_TOO_OLD = "AgentTooOld";
        /// It is not known that kube-proxy serves the node in nftables or iptables mode.
        SERVICE_PROXY = "ServiceProxy";
        /// The agent's guard does nothing on the node.
        UNGUARDED = "Unguarded";
        /// The address is at the virtual MAC address.
        VIRTUAL_MAC_ADDRESS = "VirtualMACAddress";
        /// The kernel of the node cannot direct packets.
        NOT_SUPPORTED = "NotSupported";
        /// Packets with a client's source address do not pass between the node and another.
        SOURCES_FILTERED = "SourcesFiltered";
        /// The node's table of shared addresses is full.
        NO_ROOM = "NoRoom";
    }
}

/// Reasons of a VirtualRouter's [`CONDITION_MULTICAST_HEARD`].
pub mod multicast_heard {
    identifiers! {
        /// All of them.
        ALL:
        /// `True`: by all nodes again, as far as the Active node knows.
        HEARD = "Heard";
        /// `False`: the Active node sends adverts to some by unicast.
        UNICAST_FALLBACK = "UnicastFallback";
    }
}

/// Reasons of an Announcement's [`CONDITION_APPLIED`].
pub mod applied {
    /// `True`: to each virtual IP that it selects.
    pub const ALL: &str = "AppliesToAll";
    /// `True`: it selects no virtual IP yet.
    pub const NOTHING_SELECTED: &str = "NothingSelected";

    identifiers! {
        /// Reasons of `False`.
        FAULTS:
        /// A selector cannot be read.
        INVALID_SELECTOR = "InvalidSelector";
        /// A virtual IP that it selects is announced by another Announcement, which takes precedence.
        OVERRULED = "Overruled";
        /// It selects no node that has an agent, or no interface of one.
        NO_NODE = "NoNode";
        /// Virtual IPs are still announced as it was before, because nodes do not have the key that is to sign.
        NO_KEY = "NoKey";
        /// Virtual IPs are still announced as it was before, because there is no VRID for what it wants.
        NO_VRID = "NoVRID";
    }
}

/// Reasons of a pool's [`CONDITION_READY`].
pub mod pool_ready {
    /// `True`: every address can be given.
    pub const USABLE: &str = "Usable";
    /// `True`: it gives nothing new, because of `spec.disabled`.
    pub const DISABLED: &str = "Disabled";

    identifiers! {
        /// Reasons of `False`.
        FAULTS:
        /// A range of `spec.addresses` cannot be read.
        INVALID_ADDRESSES = "InvalidAddresses";
        /// A range of `spec.exclude` cannot be read.
        INVALID_EXCLUSION = "InvalidExclusion";
        /// A selector cannot be read.
        INVALID_SELECTOR = "InvalidSelector";
        /// An older pool has the addresses.
        OVERLAP = "Overlap";
        /// Addresses of nodes.
        NODE_ADDRESS = "NodeAddress";
        /// Network, broadcast and anycast addresses of subnets.
        SUBNET_ADDRESS = "SubnetAddress";
        /// Addresses of pods.
        POD_CIDR = "PodCIDR";
        /// Addresses of ClusterIPs.
        SERVICE_CIDR = "ServiceCIDR";
        /// Addresses of Services that other load balancers serve.
        FOREIGN_SERVICE = "ForeignService";
        /// A value that this version does not know.
        UNKNOWN_VALUE = "UnknownValue";
        /// Hosts with addresses of it.
        DUPLICATE_ADDRESSES = "DuplicateAddresses";
        /// Nothing is left of it.
        NO_ADDRESSES = "NoAddresses";
    }
}

/// Reasons of a pool's [`CONDITION_ANNOUNCEABLE`].
pub mod pool_announceable {
    /// `True`: each address, by some node.
    pub const ALL: &str = "AllAnnounceable";

    identifiers! {
        /// Reasons of `False`.
        FAULTS:
        /// Some addresses.
        PARTLY = "PartlyAnnounceable";
        /// None: no node has a subnet that holds one.
        NO_SEGMENT = "NoSegment";
        /// None: no node that its Announcement selects has an interface that it names.
        NO_INTERFACE = "NoInterface";
    }
}

/// Reason of a pool's [`CONDITION_ADDRESSES_KEPT`].
pub const REASON_OUTSIDE_POOLS: &str = "OutsidePools";

/// Reason of a VirtualIP's [`CONDITION_ADDRESS_CONFLICT`].
pub const REASON_DEFENDED: &str = "Defended";

/// Condition of a Node: `True` if the controller accepts all that its agent reports. Absent until something is not accepted.
pub const NODE_CONDITION_REPORT_BELIEVED: &str = "windlass.dev/ReportBelieved";

/// Events on Nodes that Windlass writes besides those of the cloud-provider contract.
pub mod node_event {
    identifiers! {
        /// All of them.
        ALL:
        /// A part of the node's report is not accepted.
        REPORT_DOUBTED = "ReportDoubted";
        /// Objects of addresses in service were deleted by accident, and the node keeps announcing the addresses for a while.
        ADDRESSES_HELD = "AddressesHeld";
        /// The objects are back, or were taken out of service.
        ADDRESSES_BACK = "AddressesBack";
        /// They did not come back in time, and the node announces the addresses no more.
        ADDRESSES_GIVEN_UP = "AddressesGivenUp";
        /// Another host sends adverts from this node's own address.
        SOURCE_IN_USE = "SourceAddressInUse";
        /// Another node stays Active in a virtual router in which this one is Active, too.
        SECOND_ACTIVE = "SecondActive";
        /// Multicast of VRRP does not pass between this node and others.
        WITHOUT_MULTICAST = "WithoutMulticast";
        /// The kernel of the node refuses to send adverts.
        ADVERTS_REFUSED = "AdvertsRefused";
        /// Adverts from the address of another node are not authentic.
        ADVERTS_NOT_AUTHENTIC = "AdvertsNotAuthentic";
        /// The clocks of two nodes differ so much that adverts will soon be rejected.
        CLOCKS_DIFFER = "ClocksDiffer";
        /// The node's guard does not see the packets that it is to keep out.
        UNGUARDED = "Unguarded";
        /// A virtual IP is an address of an interface of the node.
        VIRTUAL_IP_ON_INTERFACE = "VirtualIPOnInterface";
        /// A part of the agent that announcing does not need is missing: it panicked, failed or stalls.
        AGENT_PART_MISSING = "AgentPartMissing";
        /// A process of another user holds the claim of a virtual router on the node, which is ignored.
        CLAIM_IGNORED = "ClaimIgnored";
    }
}

/// Events on Services that Windlass writes besides those of the cloud-provider contract.
pub mod event {
    identifiers! {
        /// All of them.
        ALL:
        /// The Service's new address works, and the old one is about to go.
        ADDRESS_MOVING = "AddressMoving";
        /// The Service has another address, as its pool or the admin allows.
        ADDRESS_MOVED = "AddressMoved";
        /// Another node announces an address of the Service than before.
        ANNOUNCING_NODE_CHANGED = "AnnouncingNodeChanged";
        /// Another host has an address that the Service shows, and it is not announced.
        ADDRESS_TAKEN = "AddressTaken";
        /// Another host uses an address that the Service shows, beside the node that announces it.
        ADDRESS_CONFLICT = "AddressConflict";
        /// An external IP of the Service lies in a pool that does not allow it.
        EXTERNAL_IP_REFUSED = "ExternalIPRefused";
        /// Another Service that may not have the Service's address lists it in `spec.externalIPs`.
        FOREIGN_EXTERNAL_IP = "ForeignExternalIP";
        /// Another controller writes the Service's status, too.
        STATUS_CONTESTED = "StatusContested";
        /// An entry of the status that another controller left behind was taken out.
        FOREIGN_INGRESS_REMOVED = "ForeignIngressRemoved";
    }
}
