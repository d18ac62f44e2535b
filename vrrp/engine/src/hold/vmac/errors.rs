//! Refusals of the kernel, with remedies.

use nix::errno::Errno;
use windlass_kernel::netlink::{NetlinkError, Refusal};

use super::device::DeviceId;

/// Separates a refusal of one request from a failure of the socket.
pub(super) fn refusal_of(outcome: Result<(), NetlinkError>) -> Result<Option<Refusal>, NetlinkError> {
    match outcome {
        Ok(()) => Ok(None),
        Err(NetlinkError::Refused(refusal)) => Ok(Some(refusal)),
        Err(error @ (NetlinkError::AnswersLost | NetlinkError::Io { .. } | NetlinkError::Malformed(_))) => {
            Err(error)
        }
    }
}

/// Ignores a refusal, which is as good as success: the interface is gone.
pub(super) fn ignore_refusal(outcome: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    if let Some(refusal) = refusal_of(outcome)? {
        tracing::debug!(%refusal, "the kernel did not remove an interface");
    }
    Ok(())
}

pub(super) fn refused_to_make(id: DeviceId, parent: &str, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::EOPNOTSUPP => {
            "the kernel has no macvlan devices: `modprobe macvlan` (CONFIG_MACVLAN), or hold the VIPs by `respond` or `address`"
                .to_owned()
        }
        Errno::EEXIST => format!(
            "there is an interface of that name without this engine's mark: `ip link del {name}` if nobody needs it"
        ),
        Errno::EBUSY | Errno::EINVAL => format!(
            "{parent} cannot carry macvlan devices, as a port of a bridge, bond or team cannot: run the router on that \
             instead, or hold the VIPs by `respond` or `address`"
        ),
        _ => "hold the VIPs by `respond` or `address` if that stays".to_owned(),
    };
    format!("cannot make the macvlan {name} on {parent}: {refusal}: {remedy}")
}

pub(super) fn refused_to_set(id: DeviceId, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::ENOENT => {
            ": the kernel has no queueing discipline `blackhole` (CONFIG_NET_SCHED), without which the device would not be \
             silent; hold the VIPs by `respond` or `address`"
        }
        _ => "",
    };
    format!("cannot set up the macvlan {name}: {refusal}{remedy}")
}

pub(super) fn refused_to_open(id: DeviceId, parent: &str, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::EADDRINUSE | Errno::EBUSY => format!(
            ": another device on {parent} has the virtual router MAC address, as one of keepalived or FRR (`ip -d link`): \
             remove it"
        ),
        _ => String::new(),
    };
    format!("cannot set the macvlan {name} up: {refusal}{remedy}")
}
