//! What is measured.

use std::time::Duration;

use windlass_engine::{Family, Hold};

/// Virtual routers on one segment: nearly as many as there are VRIDs.
const A_SEGMENT: usize = 250;

/// A set of virtual routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) routers: usize,
    /// VIPs of each.
    pub(crate) vips: usize,
    pub(crate) interval_ms: u32,
    pub(crate) family: Family,
    pub(crate) hold: Hold,
    /// With the guard, four ports for each VIP, and what is forwarded to who was Active before.
    pub(crate) guarded: bool,
    /// With authentication, which refuses adverts that are not signed.
    pub(crate) authenticated: bool,
}

impl Case {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let base = Self { interval_ms: 1000, ..Self::one_router() };
        let mut all = Vec::new();
        for (routers, intervals) in [(1, &[1000, 100, 10][..]), (255, &[1000, 100, 10]), (2000, &[1000, 100])]
        {
            all.extend(intervals.iter().map(|&interval_ms| Self { routers, interval_ms, ..base }));
        }
        for hold in [Hold::Respond, Hold::Address] {
            for family in [Family::V4, Family::V6] {
                let vips = [1, 1000, 10_000].into_iter();
                all.extend(vips.map(|vips| Self { vips, interval_ms: 100, family, hold, ..base }));
            }
        }
        // Linux goes through all addresses of the node for each IPv6 address that is bound: so many are not bound in time.
        let feasible =
            |case: &Self| case.vips < 10_000 || case.family == Family::V4 || case.hold != Hold::Address;
        // Each once, where it comes first.
        (0..all.len()).filter(|&n| !all[..n].contains(&all[n])).map(|n| all[n]).filter(feasible).collect()
    }

    /// Adverts of all routers at once, as fast as one process can.
    pub(crate) fn flat_out() -> Self {
        Self { routers: 2000, interval_ms: 10, ..Self::one_router() }
    }

    /// With one VIP of IPv4, and an advert each 100 ms.
    pub(crate) fn one_router() -> Self {
        Self {
            routers: 1,
            vips: 1,
            interval_ms: 100,
            family: Family::V4,
            hold: Hold::Respond,
            guarded: false,
            authenticated: false,
        }
    }

    pub(crate) fn name(self) -> String {
        let Self { routers, vips, interval_ms, .. } = self;
        let (family, hold) = (self.family_name(), self.hold_name());
        if vips == 1 {
            format!("{routers}-routers-{interval_ms}ms-{family}-{hold}")
        } else {
            format!("{vips}-vips-{interval_ms}ms-{family}-{hold}")
        }
    }

    pub(crate) fn family_name(self) -> &'static str {
        match self.family {
            Family::V4 => "v4",
            Family::V6 => "v6",
        }
    }

    pub(crate) fn hold_name(self) -> &'static str {
        match self.hold {
            Hold::Respond => "respond",
            Hold::Address => "address",
            Hold::Vmac => "vmac",
        }
    }

    pub(crate) fn interval(self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Adverts that the Active's process sends in this time.
    pub(crate) fn expected_in(self, time: Duration) -> u64 {
        let each = time.as_millis() / u128::from(self.interval_ms);
        self.routers as u64 * u64::try_from(each).unwrap_or(u64::MAX)
    }

    pub(crate) fn segments(self) -> usize {
        self.routers.div_ceil(A_SEGMENT)
    }

    /// On this segment.
    pub(crate) fn routers_on(self, segment: usize) -> usize {
        (self.routers - segment * A_SEGMENT).min(A_SEGMENT)
    }

    pub(crate) fn all_vips(self) -> usize {
        self.routers * self.vips
    }
}
