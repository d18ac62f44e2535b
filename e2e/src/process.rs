//! The processes of the lab: programs that are neither the cluster's nor Windlass', and what any of them costs.

use anyhow::Context as _;
use nix::sys::signal::Signal;

use crate::lab::Lab;

impl Lab {
    /// Starts a program on a host; its output goes to the log `<host>-<name>.log`.
    pub fn start_process(&self, host: &str, name: &str, command: &[&str]) -> anyhow::Result<()> {
        self.host(host)?;
        let command = command.iter().map(|&word| word.to_owned()).collect();
        self.daemons.start(&self.sandbox, host, name, command)
    }

    /// Ends a program by a signal and waits until it has ended.
    pub async fn end_process(&self, host: &str, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, host, name, signal).await
    }

    /// Id, as this process sees it, of a process that the lab started on a host: of `kube-apiserver` on `cp`, of `agent` on
    /// a node. An error once it has ended.
    pub fn process_id(&self, host: &str, name: &str) -> anyhow::Result<i32> {
        let pid = self.daemons.outer(&self.sandbox, host, name)?;
        Ok(pid.with_context(|| format!("{name} on {host} has ended"))?.as_raw())
    }
}
