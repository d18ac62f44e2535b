//! Commands on the hosts of a lab: kubectl, curl, anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{lab::Lab, sandbox::Entrance, tools};

/// Default time limit of a command.
const LIMIT: Duration = Duration::from_mins(1);

impl Lab {
    /// Runs a command on a host, in its network namespace, and returns what it prints. It is ended after 60 s; an exit
    /// status other than 0 is an error that holds what it complained.
    pub async fn exec(&self, host: &str, command: &[&str]) -> anyhow::Result<String> {
        self.exec_with(host, command, LIMIT, None).await
    }

    /// Runs kubectl as admin.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(arguments, None).await
    }

    /// Runs Helm as admin.
    pub async fn helm(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let (helm, kubeconfig) =
            (tools::helm()?.display().to_string(), self.kubeconfig("admin").display().to_string());
        let folders = ["CACHE", "CONFIG", "DATA"].map(|one| format!("HELM_{one}_HOME=/run/lab/helm"));
        let mut command = vec!["env"];
        command.extend(folders.iter().map(String::as_str));
        command.extend([&*helm, "--kubeconfig", &*kubeconfig]);
        command.extend(arguments);
        self.exec_with("cp", &command, Duration::from_mins(3), None).await
    }

    /// Applies manifests: YAML text, or the path of a file, or of a folder with or without a kustomization.
    pub async fn apply(&self, what: impl AsRef<str>) -> anyhow::Result<String> {
        let what = what.as_ref();
        // YAML has a line break or at least a colon and a space; a path that has neither is looked up.
        let path = Path::new(what);
        if what.contains('\n') || !path.exists() {
            ensure!(what.contains(": "), "{what:?} is neither YAML nor an existing path");
            return self.kubectl_with(&["apply", "--filename=-"], Some(what)).await;
        }
        let path = std::path::absolute(path)?;
        let kustomized = path.join("kustomization.yaml").exists();
        let path = path.to_str().context("a path that is no UTF-8")?;
        let flag = if kustomized { "--kustomize" } else { "--filename" };
        self.kubectl_with(&["apply", flag, path], None).await
    }

    async fn kubectl_with(&self, arguments: &[&str], input: Option<&str>) -> anyhow::Result<String> {
        let (kubectl, kubeconfig) =
            (self.tools.path("kubectl"), self.kubeconfig("admin").display().to_string());
        let mut command = vec![&*kubectl, "--kubeconfig", &*kubeconfig, "--cache-dir=/run/lab/kubectl"];
        command.extend(arguments);
        self.exec_with("cp", &command, LIMIT, input).await
    }

    /// Asks the backend behind `address`:`port` for its host name, over HTTP from host `client`; waits 2 s at most.
    pub async fn curl(&self, client: &str, address: impl Into<IpAddr>, port: u16) -> anyhow::Result<String> {
        let url = format!("http://{}/hostname", SocketAddr::new(address.into(), port));
        let command = ["curl", "-sS", "--noproxy", "*", "--connect-timeout", "1", "--max-time", "2", &url];
        self.exec(client, &command).await
    }

    /// Sends `count` requests from host `client`, each over a new connection, and returns the names of the backends that answer. A request that is
    /// not answered within 2 s is an error. `flags`: further ones of curl.
    pub async fn curl_each(
        &self,
        client: &str,
        address: impl Into<IpAddr>,
        port: u16,
        count: usize,
        flags: &[&str],
    ) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.curl_counted(client, address, port, count, flags).await?.into_keys().collect())
    }

    /// The same with the number of answers of each.
    pub async fn curl_counted(
        &self,
        client: &str,
        address: impl Into<IpAddr>,
        port: u16,
        count: usize,
        flags: &[&str],
    ) -> anyhow::Result<BTreeMap<String, usize>> {
        let url = format!("http://{}/hostname?[1-{count}]", SocketAddr::new(address.into(), port));
        let bounds = ["--connect-timeout", "1", "--max-time", "2", "--fail-early"];
        let own = ["--header", "Connection: close", "--write-out", "\n", &url];
        let command = [&["curl", "-sS", "--noproxy", "*"], &bounds[..], flags, &own].concat();
        let mut counts = BTreeMap::new();
        for server in self.exec(client, &command).await?.lines() {
            *counts.entry(server.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    /// Runs `act` on a thread of its own in the network namespace of a host, or of a light backend's server, as `web-n1`,
    /// and waits for it. A socket that it opens stays there, whoever uses it.
    pub fn within<T: Send>(&self, netns: &str, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let entrance = Entrance::new(&self.sandbox, netns)?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| entrance.enter().map(|()| act()));
            thread.join().map_err(|_| anyhow!("what was done within {netns} panicked"))?
        })
    }

    async fn exec_with(
        &self,
        host: &str,
        command: &[&str],
        limit: Duration,
        input: Option<&str>,
    ) -> anyhow::Result<String> {
        self.host(host)?;
        let seconds = limit.as_secs().to_string();
        let bounded = [&["timeout", "--kill-after=1", &seconds], command].concat();
        let mut child = Command::from(self.sandbox.command(Some(host), &bounded))
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting nsenter(1)")?;
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(text.as_bytes()).await.context("writing to the command")?;
        }
        let output = child.wait_with_output().await?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(said.into_owned());
        }
        let complained = String::from_utf8_lossy(&output.stderr);
        let words =
            [complained.trim(), said.trim()].into_iter().find(|words| !words.is_empty()).unwrap_or("nothing");
        match output.status.code() {
            Some(124) => {
                bail!("on {host}, {} took more than {seconds} s; it said: {words}", command.join(" "))
            }
            _ => bail!("on {host}, {} failed ({}): {words}", command.join(" "), output.status),
        }
    }
}
