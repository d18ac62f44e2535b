//! Windlass' own processes in the light variant. (With kubelets they run as pods, from the manifests.)

use std::path::Path;

use anyhow::ensure;
use nix::sys::signal::Signal;

use crate::{agent_tokens, lab::Lab, tools};

/// Start options of a controller.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Name of the process, for [`Lab::stop_controller`] and its log `cp-<name>.log`.
    pub name: String,
    /// HTTPS port of `/healthz`, `/readyz` and `/metrics` at 127.0.0.1 of host `cp`.
    pub http_port: u16,
    /// Further flags.
    pub flags: Vec<String>,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self { name: "controller".into(), http_port: 10258, flags: Vec::new() }
    }
}

impl ControllerOptions {
    /// Options of a controller whose lease expires soon after it is killed, so that the cluster has a leader most of the time.
    pub fn short_lease(name: &str, http_port: u16) -> Self {
        let flags = [
            "--leader-elect-lease-duration=5s",
            "--leader-elect-renew-deadline=4s",
            "--leader-elect-retry-period=500ms",
        ];
        Self { name: name.into(), http_port, flags: flags.map(str::to_owned).to_vec() }
    }
}

impl Lab {
    /// Light only: starts a controller on host `cp`, as the service account `windlass-system/windlass-controller`. Where it ends because
    /// its lease is lost it is started again, as a kubelet would.
    pub fn start_controller(&self, options: ControllerOptions) -> anyhow::Result<()> {
        let mut command = self.daemon("controller", &self.kubeconfig("controller"))?;
        // Loopback of `cp` is shared by all controllers of a lab.
        command.extend(["--bind-address=127.0.0.1".into(), format!("--secure-port={}", options.http_port)]);
        command.extend(options.flags);
        self.daemons.start(&self.sandbox, "cp", &options.name, command)?;
        self.daemons.keep("cp", &options.name);
        Ok(())
    }

    /// Ends a controller with SIGTERM (an orderly stop) or SIGKILL (a crash) and waits until it has ended.
    pub async fn stop_controller(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, "cp", name, signal).await
    }

    /// Sends a signal, as SIGSTOP or SIGCONT, to a controller.
    pub fn signal_controller(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.signal(&self.sandbox, "cp", name, signal)
    }

    /// Returns true if a controller that was started is still running.
    pub fn controller_runs(&self, name: &str) -> anyhow::Result<bool> {
        Ok(self.daemons.outer(&self.sandbox, "cp", name)?.is_some())
    }

    /// Returns the controller's answer to the admin at this port, as at `/metrics`. Any status but 200 is an error.
    pub async fn ask_controller(&self, port: u16, path: &str) -> anyhow::Result<String> {
        let bearer = self.admin_bearer()?;
        let url = format!("https://127.0.0.1:{port}{path}");
        // Its certificate is one of its own making.
        let words = ["curl", "-sSk", "--noproxy", "*", "--max-time", "2", "--fail-with-body"];
        self.exec("cp", &[&words[..], &["-H", &bearer, &url]].concat()).await
    }

    /// The header by which the admin is known to the cluster.
    pub fn admin_bearer(&self) -> anyhow::Result<String> {
        Ok(format!("Authorization: Bearer {}", self.pki.token("admin")?))
    }

    /// Light only: starts the agent of a node, as the service account `windlass-system/windlass-agent`, with a token of a pod on that
    /// node. Its state, in [`state_folder`], outlives it.
    pub fn start_agent(&self, node: &str) -> anyhow::Result<()> {
        self.start_agent_with(node, &[])
    }

    /// As [`Self::start_agent`], with further flags.
    pub fn start_agent_with(&self, node: &str, flags: &[&str]) -> anyhow::Result<()> {
        self.node(node)?;
        self.start_agent_in(node, flags)
    }

    /// The same in a network namespace that need not be one of the lab's nodes.
    pub(crate) fn start_agent_in(&self, node: &str, flags: &[&str]) -> anyhow::Result<()> {
        let state = state_folder(node);
        self.sandbox.script(&format!("mkdir -p {state}"))?;
        // Before the manifests are installed there is no account that a token could be of.
        let bound = self.kubeconfig(&agent_tokens::account(node));
        let kubeconfig = if bound.exists() { bound } else { self.kubeconfig("agent") };
        let mut command = self.daemon("agent", &kubeconfig)?;
        let socket = format!("--socket={}", agent_socket(node));
        command.extend(["--node-name".into(), node.into(), "--state-dir".into(), state, socket]);
        command.extend(flags.iter().map(ToString::to_string));
        self.start_on_node(node, "agent", command)
    }

    /// Light only: the metrics of the agent of a node.
    pub async fn agent_metrics(&self, node: &str) -> anyhow::Result<String> {
        let binary = tools::windlass_binary()?.display().to_string();
        self.exec(node, &[&binary, "probe", "/metrics", "--socket", &agent_socket(node)]).await
    }

    /// Ends the agent of a node with SIGTERM (an orderly stop) or SIGKILL (a crash) and waits until it has ended.
    pub async fn stop_agent(&self, node: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, node, "agent", signal).await
    }

    /// Runs a command of the command line on host `cp`, as an admin. Its standard output, unless it fails.
    pub async fn windlass(&self, words: &[&str]) -> anyhow::Result<String> {
        let command = command_line(&self.kubeconfig("admin"), words)?;
        self.exec("cp", &command.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    fn daemon(&self, role: &str, kubeconfig: &Path) -> anyhow::Result<Vec<String>> {
        ensure!(self.options.light, "with kubelets, windlass runs as pods: apply its manifests");
        command_line(kubeconfig, &[role])
    }
}

fn command_line(kubeconfig: &Path, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut command = vec![tools::windlass_binary()?.display().to_string()];
    command.extend(words.iter().map(ToString::to_string));
    command.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    Ok(command)
}

/// State folder of a node's agent, as the lab's processes see it.
pub fn state_folder(node: &str) -> String {
    format!("/run/lab/windlass/{node}")
}

/// Socket at which the agent of a node answers its probes, beside its state.
fn agent_socket(node: &str) -> String {
    format!("{}/agent.sock", state_folder(node))
}
