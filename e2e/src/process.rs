//! The processes of the lab: programs that are neither the cluster's nor Windlass', and what any of them costs.

use std::fs;

use anyhow::Context as _;
use nix::sys::signal::Signal;

use crate::lab::Lab;

/// Ticks per second in which the kernel reports processor time to programs, on every architecture that Windlass is built for.
const TICKS_PER_SECOND: f64 = 100.0;

impl Lab {
    /// Starts a program on a host; its output goes to the log `<host>-<name>.log`.
    pub fn start_process(&self, host: &str, name: &str, command: &[&str]) -> anyhow::Result<()> {
        self.host(host)?;
        let command = command.iter().map(|&word| word.to_owned()).collect();
        self.daemons.start(&self.sandbox, host, name, command)
    }

    /// Starts a program on a host; on a node it dies with the node.
    pub(crate) fn start_here(&self, host: &str, name: &str, command: Vec<String>) -> anyhow::Result<()> {
        self.host(host)?;
        if self.all_nodes().any(|node| node.name() == host) {
            return self.start_on_node(host, name, command);
        }
        self.daemons.start(&self.sandbox, host, name, command)
    }

    /// Light only: starts a further program beside the server of a backend, as `web-n1`, as one of its node's; its output goes to the log
    /// `<server>-<name>.log`.
    pub fn start_beside(&self, server: &str, name: &str, command: &[&str]) -> anyhow::Result<()> {
        let (_, node) = server.rsplit_once('-').with_context(|| format!("{server:?} is no server"))?;
        let mark = format!("{}={node}", crate::node::MARK);
        let command = ["env", &mark].iter().chain(command).map(|&word| word.to_owned()).collect();
        self.daemons.start(&self.sandbox, server, name, command)
    }

    /// Ends a program by a signal and waits until it has ended.
    pub async fn end_process(&self, host: &str, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, host, name, signal).await
    }

    /// Sends a signal to a process that the lab started on a host: SIGSTOP and SIGCONT to `etcd` or `kube-apiserver` on `cp`.
    pub fn signal_process(&self, host: &str, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.signal(&self.sandbox, host, name, signal)
    }

    /// Id, as this process sees it, of a process that the lab started on a host: of `kube-apiserver` on `cp`, of `agent` on
    /// a node. An error once it has ended.
    pub fn process_id(&self, host: &str, name: &str) -> anyhow::Result<i32> {
        let pid = self.daemons.outer(&self.sandbox, host, name)?;
        Ok(pid.with_context(|| format!("{name} on {host} has ended"))?.as_raw())
    }

    /// The same as the lab's own processes see it.
    pub fn inner_process_id(&self, host: &str, name: &str) -> anyhow::Result<i32> {
        self.daemons.inner(host, name)
    }
}

/// Which figure of a process' memory: fields of proc_pid_status(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In use now.
    Resident,
    /// The most that was ever in use.
    Peak,
}

/// Memory of a process, in millions of bytes.
pub fn memory_mb(pid: i32, which: Memory) -> anyhow::Result<f64> {
    Ok(f64::from(memory_kib(pid, which)?) * 1024.0 / 1e6)
}

/// Memory of a process, in KiB.
pub fn memory_kib(pid: i32, which: Memory) -> anyhow::Result<u32> {
    let field = match which {
        Memory::Resident => "VmRSS:",
        Memory::Peak => "VmHWM:",
    };
    let file = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    kib.with_context(|| format!("{file} has no {field}"))
}

/// Processor seconds that a process took since its start, in steps of 10 ms: `utime` and `stime` of proc_pid_stat(5). `pid`
/// may be `self`.
pub fn processor_seconds(pid: &str) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    // The first is the state, the third field.
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u32>().ok());
    let sum = ticks(14).zip(ticks(15)).map(|(user, system)| f64::from(user) + f64::from(system));
    Ok(sum.with_context(|| format!("{file} has no times"))? / TICKS_PER_SECOND)
}
