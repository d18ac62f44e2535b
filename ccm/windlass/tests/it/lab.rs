//! Hosts in network namespaces, as the engine's FRR (`vrrp/engine/tests/it/speaker/router.rs`) needs them.

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

/// Limit of every wait.
const LIMIT: Duration = Duration::from_mins(1);

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, which goes with its thread.
pub(crate) struct Host {
    jobs: Sender<Job>,
    tid: nix::unistd::Pid,
}

impl Host {
    pub(crate) fn new() -> Self {
        let (jobs, inbox) = channel::<Job>();
        let (sender, tid) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("unshare(CLONE_NEWNET)");
            sender.send(nix::unistd::gettid()).unwrap();
            for job in inbox {
                job();
            }
        });
        Self { jobs, tid: tid.recv().expect("the host's thread") }
    }

    /// Names the namespace to `ip`.
    pub(crate) fn tid(&self) -> nix::unistd::Pid {
        self.tid
    }

    /// Runs `job` in the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = channel();
        self.jobs.send(Box::new(move || drop(sender.send(job())))).expect("the host's thread");
        result.recv().expect("the job panicked")
    }

    /// Runs `ip` with these arguments in the namespace.
    pub(crate) fn ip(&self, arguments: &str) {
        let line = arguments.to_owned();
        let output = self.run(move || Command::new("ip").args(line.split(' ')).output().expect("run `ip`"));
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Returns true if tests can make namespaces.
pub(crate) fn require_root() -> bool {
    crate::support::have_root("a test in network namespaces")
}

/// Asks again until there is an answer.
pub(crate) fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no {what} within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
