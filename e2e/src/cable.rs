//! A hand on a cable: pulls it without starting a program first, so that the moment of the pull is the one chosen.

use std::{
    io::Write as _,
    process::{Child, Stdio},
};

use anyhow::Context as _;

use crate::node::Node;

/// Holds a node's cable, ready to pull.
#[derive(Debug)]
pub struct Hand {
    port: String,
    ip: Child,
}

impl Node<'_> {
    /// Takes the node's cable in hand.
    pub fn take_cable(&self) -> anyhow::Result<Hand> {
        let mut ip = self.lab.sandbox.command(Some("lan"), &["ip", "-batch", "-"]);
        let ip = ip.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("starting ip(8)")?;
        Ok(Hand { port: format!("v-{}", self.name()), ip })
    }
}

impl Hand {
    /// Pulls the cable immediately. [`Node::plug_cable`] plugs it in again.
    pub fn pull(mut self) -> anyhow::Result<()> {
        let mut commands = self.ip.stdin.take().context("the hand has no pipe to ip(8)")?;
        writeln!(commands, "link set {} down", self.port).context("pulling a cable")?;
        drop(commands);
        let status = self.ip.wait().context("waiting for ip(8)")?;
        anyhow::ensure!(
            status.success(),
            "pulling the cable {} failed: ip(8) ended with {status}",
            self.port
        );
        Ok(())
    }
}
