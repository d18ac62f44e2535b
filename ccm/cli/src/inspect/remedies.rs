//! Remedies by the reason of a condition: the column "do" of the tables in `docs/conditions.md`. Pure.

use windlass_api::{
    REASON_DEFENDED, REASON_OUTSIDE_POOLS, address_allocated, announced, applied, connections_replicated,
    multicast_heard, pool_announceable, pool_ready,
};

/// Remedy for a reason that this version does not know.
const OTHER: &str = "do as the message says; this program is older than the one that wrote the condition";

/// Returns the remedy for a Service's condition AddressAllocated (docs/conditions.md).
pub(super) fn of_service(reason: &str) -> &'static str {
    match reason {
        address_allocated::NOT_ANNOUNCED => {
            "run `windlass explain` for the Service: its VirtualIP shows why no node announces the address"
        }
        address_allocated::ADDRESS_CONFLICT => "remove the address from the other host",
        address_allocated::NO_LOCAL_ENDPOINT => {
            "run pods on nodes that may announce the address, or select the pods' nodes in the Announcement"
        }
        address_allocated::SUBNET_GONE => {
            "replace the pool's addresses by addresses of the nodes' new subnet, and set its spec.onRemoval: Move"
        }
        address_allocated::ADDRESS_OUTSIDE_POOLS => {
            "add the address to a pool, or set spec.onRemoval: Move in the pool, which moves the Service to another address"
        }
        address_allocated::ADDRESS_IN_OTHER_POOL => {
            "name the pool that has the address, or add the address to the pool that the Service names"
        }
        address_allocated::FAMILY_MISSING => {
            "add addresses of the other family to a pool that the Service may use"
        }
        address_allocated::NO_FREE_ADDRESS => {
            "add addresses to a pool that the Service may use, or free some"
        }
        address_allocated::LIMIT_REACHED => "free an address, or raise the limit of the pool",
        address_allocated::NO_SUCH_POOL => "create the pool, or correct the annotation windlass.dev/pool",
        address_allocated::INVALID_REQUEST => "correct the field or annotation that the message names",
        address_allocated::ADDRESS_IN_USE => {
            "free the address, wait for the end of its quarantine, or name another"
        }
        address_allocated::SHARING_REFUSED => {
            "give both Services the same windlass.dev/sharing-key and different ports, or name another address"
        }
        address_allocated::POOL_NOT_ALLOWED => {
            "change the selectors of the pool or the labels, or name another pool or address"
        }
        _ => OTHER,
    }
}

/// Returns the remedy for a VirtualIP's condition Announced (docs/conditions.md).
pub(super) fn of_announced(reason: &str) -> &'static str {
    match reason {
        announced::ADDRESS_TAKEN => "remove the address from the other host",
        announced::ADDRESS_REFUSED => {
            "remove the address from the node, add the missing key, or exclude the address from its pool"
        }
        announced::UNGUARDED => {
            "run the agent of that node with the guard, or remove the source ranges of the Service"
        }
        announced::AGENT_STOPPED => "start the agent of that node",
        announced::NO_SEGMENT => {
            "give the pool addresses of the nodes' subnet, run an agent on a node of that subnet, or name interfaces in an \
             Announcement"
        }
        announced::NO_INTERFACE => {
            "correct nodeSelectors, interfaces or excludeInterfaces of the Announcement"
        }
        announced::NO_SUBNET => "give the nodes addresses with the subnet's prefix length, not /32 or /128",
        announced::NO_LINK_LOCAL_ADDRESS => "give the interfaces an IPv6 link-local address",
        announced::NO_VRID => "free a VRID of the segment, or widen spec.vrrp.vridRange of the Announcement",
        announced::AGENT_TOO_OLD => {
            "kubectl apply -f manifests/crds, then update the agents that the message names"
        }
        announced::QUARANTINED => "wait, or `kubectl delete virtualip` to free the address now",
        _ => OTHER,
    }
}

/// Returns the remedy for a VirtualIP's condition ConnectionsReplicated (docs/conditions.md).
pub(super) fn of_connections(reason: &str) -> &'static str {
    match reason {
        connections_replicated::NOT_IN_SYNC => {
            "wait some seconds; if the condition is still False, allow UDP port 10112 between the nodes"
        }
        connections_replicated::ROUTES_UNKNOWN | connections_replicated::REPLICATION_FAILED => {
            "read the log of the node's agent"
        }
        _ => OTHER,
    }
}

/// Remedy for a VirtualIP's condition LoadShared, whose message has the details.
pub(super) const OF_SHARING: &str = "do as the message says, and as docs/conditions.md says of this reason of LoadShared; or set loadSharing: None";

/// Returns the remedy for a pool's conditions (docs/conditions.md).
pub(super) fn of_pool(reason: &str) -> &'static str {
    match reason {
        pool_ready::INVALID_ADDRESSES | pool_ready::INVALID_EXCLUSION | pool_ready::INVALID_SELECTOR => {
            "correct what the message names"
        }
        pool_ready::OVERLAP => "remove the addresses from one of the two pools",
        pool_ready::NODE_ADDRESS => "exclude the address from the pool",
        pool_ready::SUBNET_ADDRESS => "exclude the address, or set avoidReserved: Subnet",
        pool_ready::POD_CIDR | pool_ready::SERVICE_CIDR => "remove the addresses from the pool",
        pool_ready::FOREIGN_SERVICE => {
            "exclude the address, unless Windlass shall serve its Service, which then keeps the address"
        }
        pool_ready::UNKNOWN_VALUE => "upgrade the controller",
        pool_ready::DUPLICATE_ADDRESSES => "write each address once",
        pool_ready::NO_ADDRESSES => "add addresses, or exclude fewer",
        // NoSegment and NoInterface are the same words of a VirtualIP.
        pool_announceable::PARTLY | pool_announceable::NO_SEGMENT => {
            "list addresses of the nodes' subnets, or name interfaces in an Announcement"
        }
        pool_announceable::NO_INTERFACE => {
            "correct nodeSelectors, interfaces or excludeInterfaces of the Announcement"
        }
        REASON_OUTSIDE_POOLS => {
            "add the addresses to a pool again, or set spec.onRemoval: Move, which moves the Services to others"
        }
        announced::ADDRESS_TAKEN => "remove the address from the other host, or exclude it from the pool",
        windlass_api::event::EXTERNAL_IP_REFUSED => {
            "remove the addresses from spec.externalIPs of the Services, or set allowExternalIPs in the pool"
        }
        _ => OTHER,
    }
}

/// Returns the remedy for an Announcement's condition Applied (docs/conditions.md).
pub(super) fn of_announcement(reason: &str) -> &'static str {
    match reason {
        applied::INVALID_SELECTOR => "correct the selector",
        applied::OVERRULED => "lower its priority, or narrow its selectors",
        applied::NO_NODE => "correct nodeSelectors, interfaces or excludeInterfaces",
        applied::NO_KEY => "add the key to the Secret windlass-vrrp-keys",
        applied::NO_VRID => "widen spec.vrrp.vridRange, or free a VRID",
        _ => OTHER,
    }
}

/// Returns the remedy for an address that another host uses beside the announcing node, and for multicast that does not arrive.
pub(super) fn of_lan(reason: &str) -> &'static str {
    match reason {
        REASON_DEFENDED => "remove the address from the other host",
        multicast_heard::UNICAST_FALLBACK => {
            "configure the switch to forward 224.0.0.18 and ff02::12 between the nodes (IGMP and MLD snooping need a querier)"
        }
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_that_a_condition_may_have_has_its_remedy() {
        type Row = (fn(&str) -> &'static str, &'static [&'static [&'static str]]);
        let rows: [Row; 6] = [
            (of_service, &[address_allocated::ALL]),
            (of_announced, &[announced::FAULTS, announced::UNPLACED, &[announced::QUARANTINED]]),
            (of_connections, &[connections_replicated::FAULTS]),
            (
                of_pool,
                &[
                    pool_ready::FAULTS,
                    pool_announceable::FAULTS,
                    &[
                        REASON_OUTSIDE_POOLS,
                        announced::ADDRESS_TAKEN,
                        windlass_api::event::EXTERNAL_IP_REFUSED,
                    ],
                ],
            ),
            (of_announcement, &[applied::FAULTS]),
            (of_lan, &[&[REASON_DEFENDED, multicast_heard::UNICAST_FALLBACK]]),
        ];
        for (remedy, lists) in rows {
            for reason in lists.iter().copied().flatten().filter(|one| **one != address_allocated::ALLOCATED)
            {
                assert_ne!(remedy(reason), OTHER, "{reason}");
            }
            assert_eq!(remedy("OfALaterVersion"), OTHER);
        }
    }
}
