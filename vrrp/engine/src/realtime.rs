//! Real-time scheduling and locked memory, where they are allowed.

use std::fs;

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::prctl;
use windlass_kernel::sys;

/// Low in the range: above all ordinary threads, below the kernel's own real-time ones.
const TIMER_PRIORITY: i32 = 10;
const NEIGHBOUR_PRIORITY: i32 = TIMER_PRIORITY - 1;
const BFD_PRIORITY: i32 = NEIGHBOUR_PRIORITY - 1;
const HOLD_PRIORITY: i32 = BFD_PRIORITY - 1;
/// Bit of CAP_IPC_LOCK in a capability mask.
const CAP_IPC_LOCK: u32 = 14;
/// Bit of CAP_NET_ADMIN.
const CAP_NET_ADMIN: u32 = 12;

/// Asks for real-time scheduling of the calling thread, the timer thread, and for locked memory. Logs what was refused.
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

/// Asks for a priority just below the timer thread's: answers and announcements must not wait for a busy CPU. The refusal was
/// logged there.
pub(crate) fn neighbour_thread() {
    let _ = sys::schedule_fifo(NEIGHBOUR_PRIORITY);
}

/// BGP peers find this node dead by packets that are late. The changes of the hold thread take longer than a BFD interval may.
pub(crate) fn bfd_thread() {
    let _ = sys::schedule_fifo(BFD_PRIORITY);
}

/// A VIP is served only when it is bound: binding must not wait for a busy CPU either.
pub(crate) fn hold_thread() {
    let _ = sys::schedule_fifo(HOLD_PRIORITY);
}

/// Without the capability, locking future pages makes allocation fail once RLIMIT_MEMLOCK is reached: worse than swap.
fn may_lock_all() -> bool {
    is_capable(CAP_IPC_LOCK)
}

/// Returns true if the calling thread may change interfaces and packet filters.
pub(crate) fn may_administer_network() -> bool {
    is_capable(CAP_NET_ADMIN)
}

fn is_capable(bit: u32) -> bool {
    fs::read_to_string("/proc/thread-self/status").is_ok_and(|status| holds_capability(&status, bit))
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
