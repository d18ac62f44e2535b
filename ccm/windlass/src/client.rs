//! The connection to the API server, and what to say when there is none.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use windlass_ccm::client::{ClientMetrics, RateLimit};

/// How long the API server may take to answer before it counts as unreachable.
const REACH_LIMIT: Duration = Duration::from_secs(10);

/// A client and the words that tell a user which server it talks to.
pub(crate) struct Connection {
    /// The client.
    pub(crate) kube: Client,
    /// As `API server https://192.0.2.10:6443 (kubeconfig /etc/kubernetes/admin.conf)`.
    server: String,
}

/// A client for the server that `kubeconfig` names, else for the cluster this pod runs in. Talks to nobody yet. Its calls
/// are counted in `metrics` and kept to `limit`.
///
/// The environment variable `KUBECONFIG` is not looked at: a daemon's server must not depend on who started it.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    limit: Option<RateLimit>,
    metrics: &ClientMetrics,
) -> anyhow::Result<Connection> {
    let (mut config, origin) = if let Some(path) = kubeconfig {
        (load(path).await?, format!("kubeconfig {}", path.display()))
    } else {
        let config = Config::incluster().map_err(|error| {
            anyhow!(
                "no API server is known, this is no pod with a service account ({error}); name a server with \
                 --kubeconfig FILE"
            )
        })?;
        (config, "service account of this pod".to_owned())
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    let server = format!("API server {} ({origin})", config.cluster_url.to_string().trim_end_matches('/'));
    let kube = windlass_ccm::client::client(config, limit, metrics)
        .with_context(|| format!("{server}: cannot set up TLS; check the certificates given there"))?;
    Ok(Connection { kube, server })
}

impl Connection {
    /// Asks the server for its version: `Ok` once it answers.
    pub(crate) async fn reach(&self) -> anyhow::Result<()> {
        match tokio::time::timeout(REACH_LIMIT, self.kube.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(server = %self.server, version = %version.git_version, "reached the API server");
                Ok(())
            }
            Ok(Err(error)) => bail!(
                "{} cannot be used: {}; check that it runs, that this host reaches it and that the credentials are \
                 its own",
                self.server,
                root_cause(&error)
            ),
            Err(_) => bail!(
                "{} did not answer within {} s; check that it runs and that this host reaches it",
                self.server,
                REACH_LIMIT.as_secs()
            ),
        }
    }
}

/// The innermost reason, which is the one a person can act on ("Connection refused"): the outer ones repeat layers.
pub(crate) fn root_cause(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({} {})", status.message, status.code, status.reason);
    }
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        reason = inner.to_string();
        source = inner.source();
    }
    reason
}

async fn load(path: &Path) -> anyhow::Result<Config> {
    let shown = path.display();
    let file = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(error, _) => {
            anyhow!("kubeconfig {shown}: {error}; give a readable file with --kubeconfig")
        }
        KubeconfigError::Parse(error) => {
            anyhow!(
                "kubeconfig {shown}: not a kubeconfig: {}; give another file with --kubeconfig",
                one_line(&error)
            )
        }
        other => anyhow!(
            "kubeconfig {shown}: {}; correct the file or give another with --kubeconfig",
            one_line(&other)
        ),
    })?;
    if file.clusters.is_empty() {
        bail!("kubeconfig {shown}: it names no cluster; give a complete file with --kubeconfig");
    }
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(|error| {
        anyhow!(
            "kubeconfig {shown}: {}; correct the file or give another with --kubeconfig",
            one_line(&error)
        )
    })
}

/// A message on one line: parsers like to draw the place of the mistake.
fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default().trim_end();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
