//! Claim of a VRID for one process of a host. Two that send from one address with one VRID would be one router to all others, which
//! obey either. A process's adverts do not come back to the host, so neither would receive the other's.

use std::net::IpAddr;

use windlass_vrrp::{Family, Vrid};

use crate::host_claim::{ClaimedByAnother, HostClaim};

/// Claims the VRID for the virtual router whose adverts go to this group.
pub(crate) fn claim(
    interface: &str,
    family: Family,
    group: Option<IpAddr>,
    vrid: Vrid,
) -> Result<HostClaim, ClaimedByAnother> {
    HostClaim::make(&name(interface, family, group, vrid))
}

/// Returns true if a process of this host, this one included, uses the VRID.
pub(crate) fn is_claimed(interface: &str, family: Family, group: Option<IpAddr>, vrid: Vrid) -> bool {
    HostClaim::is_made(&name(interface, family, group, vrid))
}

/// Returns the name of the claim; each group has VRIDs of its own.
fn name(interface: &str, family: Family, group: Option<IpAddr>, vrid: Vrid) -> String {
    let group = group.map_or_else(|| "unicast".to_owned(), |group| group.to_string());
    format!("windlass-vrrp/{interface}/{family}/{group}/{}", vrid.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vrid_is_claimed_for_its_group_alone() {
        let vrid = Vrid::new(7).unwrap();
        let group = |last| Some(IpAddr::from([224, 0, 0, last]));
        let interface = format!("claim-{}", std::process::id());
        let is_known = |last| is_claimed(&interface, Family::V4, group(last), vrid);
        let _held = claim(&interface, Family::V4, group(18), vrid).unwrap();
        assert!(is_known(18) && !is_known(19));
        assert!(!is_claimed(&interface, Family::V6, group(18), vrid));
    }
}
