//! Real-time scheduling and locked memory, where they are allowed.

use std::fs;

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;

use crate::sys;

/// Low in the range: above all ordinary threads, below the kernel's own real-time ones.
const TIMER_PRIORITY: i32 = 10;
const ANNOUNCER_PRIORITY: i32 = TIMER_PRIORITY - 1;
/// Bit of CAP_IPC_LOCK in a capability mask.
const CAP_IPC_LOCK: u32 = 14;

/// Asks for real-time scheduling of the calling thread, the timer thread, and for locked memory. Says what was refused.
pub(crate) fn timer_thread() {
    // Ordinary threads are otherwise woken up to 50 µs late on purpose.
    let _ = prctl::set_timerslack(1);
    if let Err(error) = sys::schedule_fifo(TIMER_PRIORITY) {
        tracing::warn!(
            %error,
            "no real-time scheduling: adverts may be late under CPU load; advertisement intervals below 100 ms need it \
             (add CAP_SYS_NICE, and cpu.rt_runtime_us to the container's cgroup where the kernel has RT_GROUP_SCHED)"
        );
    }
    if !may_lock_all() {
        tracing::info!("memory is not locked: CAP_IPC_LOCK is missing; matters only on nodes that swap");
        return;
    }
    // Pages are locked when first used: thread stacks would else all become resident.
    let flags = MlockAllFlags::MCL_CURRENT
        | MlockAllFlags::MCL_FUTURE
        | MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    if let Err(error) = mlockall(flags) {
        tracing::info!(%error, "memory is not locked; matters only on nodes that swap");
    }
}

/// The announcer must not wait for a busy CPU either, but never before the timer thread. Its refusal was told there.
pub(crate) fn announcer_thread() {
    let _ = sys::schedule_fifo(ANNOUNCER_PRIORITY);
}

/// Without the capability, locking future pages makes allocation fail once RLIMIT_MEMLOCK is reached: worse than swap.
fn may_lock_all() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| holds_capability(&status, CAP_IPC_LOCK))
}

fn holds_capability(status: &str, bit: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_read_from_the_effective_set() {
        assert!(holds_capability("Name:\tx\nCapEff:\t0000000000004000\n", CAP_IPC_LOCK));
        assert!(!holds_capability("CapPrm:\t0000000000004000\nCapEff:\t0000000000002000\n", CAP_IPC_LOCK));
        assert!(!holds_capability("CapEff:\tnonsense\n", CAP_IPC_LOCK));
    }
}
