//! etcd, kube-apiserver and, with kubelets, kube-controller-manager and kube-scheduler; all on host `cp`, or on each of the nodes that the
//! control plane has of its own.

mod etcd;
mod nodes;

use std::time::Duration;

use anyhow::Context as _;
use kube::{
    api::{GetParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
};
use nix::sys::signal::Signal;

use crate::{
    lab::Lab,
    topology::{Host, POD_RANGES, SERVICE_RANGE_V6},
    wait::await_that,
};

/// Time limit of a component's start on a busy machine.
pub(crate) const READY: Duration = Duration::from_mins(3);
const HOST: &str = "cp";
/// Client URL of etcd for an API server: the member on its own node.
const ETCD: &str = "http://127.0.0.1:2379";
const API_SERVER: &str = "kube-apiserver";
const LEADERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
/// Folders of etcd's data and of their backup.
const DATA: &str = "/run/lab/etcd";
const BACKUP: &str = "/run/lab/etcd-backup";

impl Lab {
    /// Starts the control plane and waits until the API server is ready.
    pub(crate) async fn start_control_plane(&self) -> anyhow::Result<()> {
        if self.options.control_plane_nodes > 0 {
            return self.start_control_plane_nodes().await;
        }
        let cp = self.host(HOST)?;
        self.daemons.start(&self.sandbox, HOST, "etcd", etcd::alone())?;
        self.daemons.start(&self.sandbox, HOST, API_SERVER, self.kube_apiserver(cp))?;
        self.await_api_server().await?;
        if !self.options.light {
            for name in LEADERS {
                self.daemons.start(&self.sandbox, HOST, name, self.leader(name, false))?;
            }
        }
        Ok(())
    }

    /// A kube-controller-manager or kube-scheduler, one of several or the only one.
    fn leader(&self, name: &str, of_several: bool) -> Vec<String> {
        let mut command = self.kubernetes(name);
        command.extend([
            format!("--kubeconfig={}", self.pki.kubeconfig(name).display()),
            format!("--leader-elect={of_several}"),
            "--cert-dir=/run/lab".into(),
        ]);
        if name == LEADERS[0] {
            command.extend([
                "--use-service-account-credentials".into(),
                format!("--service-account-private-key-file={}", self.pki.path("service-accounts.key")),
                format!("--root-ca-file={}", self.pki.path("ca.crt")),
                format!("--cluster-cidr={POD_RANGES}"),
            ]);
        }
        command
    }

    /// Ends the API server as a power cut would (SIGKILL); etcd and its data stay.
    pub async fn stop_api_server(&self) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, HOST, API_SERVER, Signal::SIGKILL).await
    }

    /// Starts the API server again, with the same certificates, port and data, and waits until it is ready.
    pub async fn start_api_server(&self) -> anyhow::Result<()> {
        self.daemons.start_again(&self.sandbox, HOST, API_SERVER)?;
        self.await_api_server().await
    }

    /// Ends etcd as a power cut would (SIGKILL); its data stay, and the API server continues without it.
    pub async fn stop_etcd(&self) -> anyhow::Result<()> {
        self.daemons.end(&self.sandbox, HOST, "etcd", Signal::SIGKILL).await
    }

    /// Starts etcd again, with its data, and waits until the API server is ready.
    pub async fn start_etcd(&self) -> anyhow::Result<()> {
        self.daemons.start_again(&self.sandbox, HOST, "etcd")?;
        self.await_api_server().await
    }

    /// Keeps what etcd holds now, as a backup; without it for as long as that takes.
    pub async fn back_up_etcd(&self) -> anyhow::Result<()> {
        self.stop_etcd().await?;
        self.sandbox.script(&format!("rm -rf {BACKUP} && cp -a {DATA} {BACKUP}"))?;
        self.start_etcd().await
    }

    /// Starts etcd and the API server again with what [`Self::back_up_etcd`] kept.
    pub async fn restore_etcd(&self) -> anyhow::Result<()> {
        self.stop_api_server().await?;
        self.stop_etcd().await?;
        self.sandbox.script(&format!("rm -rf {DATA} && cp -a {BACKUP} {DATA}"))?;
        self.daemons.start_again(&self.sandbox, HOST, "etcd")?;
        self.start_api_server().await
    }

    async fn await_api_server(&self) -> anyhow::Result<()> {
        await_that("the API server is ready", READY, async || {
            for name in ["etcd", API_SERVER] {
                self.daemons.check(&self.sandbox, self.logs(), HOST, name)?;
            }
            let readyz = Request::new("").get("readyz", &GetParams::default())?;
            Ok((self.client.request_text(readyz).await? == "ok").then_some(()))
        })
        .await
    }

    fn kube_apiserver(&self, host: &Host) -> Vec<String> {
        let file = |name: &str| self.pki.path(name);
        let mut command = self.kubernetes(API_SERVER);
        command.extend([
            format!("--etcd-servers={ETCD}"),
            format!("--advertise-address={}", host.address),
            "--secure-port=6443".into(),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            format!("--service-cluster-ip-range={},{SERVICE_RANGE_V6}", self.options.service_range),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", file("service-accounts.key")),
            "--allow-privileged".into(),
            // Logs and exec reach kubelets without DNS.
            "--kubelet-preferred-address-types=InternalIP".into(),
        ]);
        if self.options.light {
            // Nobody makes service accounts or removes the not-ready taint without a kube-controller-manager.
            command.push("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".into());
        }
        command
    }

    /// One of the Kubernetes programs, as the first word of a command.
    pub(crate) fn kubernetes(&self, program: &str) -> Vec<String> {
        vec![self.tools.path(program)]
    }
}

/// A client that speaks to the lab's API server, from a thread within its network namespace `cp`.
pub(crate) async fn client(kubeconfig: &std::path::Path) -> anyhow::Result<kube::Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(Duration::from_secs(2));
    kube::Client::try_from(config).with_context(|| format!("making a client of {}", kubeconfig.display()))
}
