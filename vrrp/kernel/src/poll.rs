//! Waiting for descriptors.

use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;

/// Pause where the kernel cannot wait, for lack of memory: better than a spin.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until one of them is ready, or for `limit`; without end if there is none. Returns true if one is ready. `what` describes
/// them.
pub fn poll(descriptors: &mut [PollFd<'_>], limit: Option<Duration>, what: &str) -> bool {
    match ppoll(descriptors, limit.map(TimeSpec::from), None) {
        Ok(ready) => ready > 0,
        Err(Errno::EINTR) => false,
        Err(error) => {
            tracing::error!(%error, "cannot wait for {what}");
            thread::sleep(PAUSE);
            false
        }
    }
}
