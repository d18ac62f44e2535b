//! Programs that are neither the cluster's nor Windlass', on hosts of the lab.

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
}
