//! Which devices are to be made, opened, closed and removed. Pure: the kernel's answers come back as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_vrrp::Time;

use super::device::DeviceId;
use crate::hold::pause::Pause;

/// First pause after a refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Devices made in one round, and those closed or removed: the kernel lets all processors pass by for each of the latter,
/// and addresses that are to be renewed must not wait for long.
const MADE_A_ROUND: usize = 16;
const UNMADE_A_ROUND: usize = 4;

/// Desired devices.
#[derive(Default, Debug)]
pub(super) struct WantedDevices {
    /// Devices there shall be, and whether they are to be up.
    pub(super) wanted: BTreeMap<DeviceId, bool>,
    /// Devices that stay if they are there, down: of routers whose interface cannot be used at the moment.
    pub(super) kept: BTreeSet<DeviceId>,
}

/// Operations on devices, in this order but for the addresses, which are removed from a device before it is closed.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct DeviceOps {
    pub(super) make: Vec<DeviceId>,
    pub(super) open: Vec<DeviceId>,
    pub(super) close: Vec<DeviceId>,
    pub(super) remove: Vec<DeviceId>,
    /// There is more to do than one round does.
    pub(super) more: bool,
}

/// Returns the operations that turn the known devices (with whether each is up) into the desired ones.
pub(super) fn device_ops(
    known: &BTreeMap<DeviceId, bool>,
    wanted_devices: &WantedDevices,
    refusals: &DeviceRefusals,
    now: Time,
) -> DeviceOps {
    let mut ops = DeviceOps::default();
    for (id, up) in &wanted_devices.wanted {
        match (known.get(id), up) {
            _ if refusals.wait(*id, now) => {}
            (None, _) => ops.make.push(*id),
            (Some(false), true) => ops.open.push(*id),
            (Some(_), _) => {}
        }
    }
    for (id, up) in known {
        let wanted = wanted_devices.wanted.get(id);
        if wanted.is_none() && !wanted_devices.kept.contains(id) {
            ops.remove.push(*id);
        } else if *up && wanted != Some(&true) {
            ops.close.push(*id);
        }
    }
    ops.more =
        ops.make.len() > MADE_A_ROUND || ops.close.len().saturating_add(ops.remove.len()) > UNMADE_A_ROUND;
    ops.make.truncate(MADE_A_ROUND);
    ops.close.truncate(UNMADE_A_ROUND);
    ops.remove.truncate(UNMADE_A_ROUND.saturating_sub(ops.close.len()));
    ops
}

/// Devices that the kernel refused, each with the reason and the pause after that.
#[derive(Default, Debug)]
pub(super) struct DeviceRefusals(BTreeMap<DeviceId, DeviceRefusal>);

#[derive(Debug)]
struct DeviceRefusal {
    reason: String,
    pause: Pause,
}

impl DeviceRefusals {
    /// It cannot be had; it is tried again after a pause.
    pub(super) fn note(&mut self, id: DeviceId, reason: String, now: Time) {
        let length = self.0.get(&id).map_or(FIRST_PAUSE, |refusal| refusal.pause.next);
        self.0.insert(id, DeviceRefusal { reason, pause: Pause::new(length, FIRST_PAUSE, now) });
    }

    /// It was had.
    pub(super) fn clear(&mut self, id: DeviceId) {
        self.0.remove(&id);
    }

    /// Forgets what is not wanted.
    pub(super) fn keep(&mut self, wanted: &BTreeMap<DeviceId, bool>) {
        self.0.retain(|id, _| wanted.contains_key(id));
    }

    /// Returns the reason why it cannot be had.
    pub(super) fn reason(&self, id: DeviceId) -> Option<&str> {
        self.0.get(&id).map(|refusal| refusal.reason.as_str())
    }

    /// Returns when a device is to be tried again, if that is yet to come: what was due is tried when it is wanted.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.0.values().map(|refusal| refusal.pause.until).filter(|until| *until > now).min()
    }

    fn wait(&self, id: DeviceId, now: Time) -> bool {
        self.0.get(&id).is_some_and(|refusal| now < refusal.pause.until)
    }
}
