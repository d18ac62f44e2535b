//! Both cores loaded: as many busy processes as there are cores, at ordinary priority.

use crate::interop::process::{Daemon, TempDir};
use crate::lab::Host;
use crate::shared::own_path;

/// The argument that makes this program a busy one.
pub(crate) const ROLE: &str = "spin";

/// Processes that never sleep, until it is dropped.
pub(crate) struct Load {
    _busy: Vec<Daemon>,
    _scratch: TempDir,
}

impl Load {
    pub(crate) fn start() -> Self {
        let (host, scratch) = (Host::new(), TempDir::new());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |n: usize| Daemon::start(&host, &scratch, &format!("spin{n}"), &[&own_path(), ROLE]);
        Self { _busy: (0..cores).map(start).collect(), _scratch: scratch }
    }
}

/// What such a process does.
pub(crate) fn spin() -> ! {
    let mut number: u64 = 1;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
