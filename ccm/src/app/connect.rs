//! The API server and the credentials for it; errors if there is none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::apiserver::describe;
use crate::client::{ClientMetrics, RateLimit};

#[cfg(test)]
mod tests;

/// Longest wait for the API server's answer before it counts as unreachable.
const REACH_LIMIT: Duration = Duration::from_secs(10);
/// Longest time to set up a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Folder in which a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// Reason that no API server can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account.
    #[error(
        "cannot find an API server: this is not a pod with a service account ({0}); name a server with --kubeconfig FILE"
    )]
    NoServer(String),
    /// The kubeconfig is none.
    #[error("kubeconfig {file}: {reason}; {remedy}")]
    Kubeconfig {
        /// The file.
        file: String,
        /// Fault of the kubeconfig.
        reason: String,
        /// Remedy for the user.
        remedy: &'static str,
    },
    /// `--master` is no URL.
    #[error("--master {0}: {1}; give a URL as https://192.0.2.10:6443")]
    Master(String, String),
    /// The certificates do not work.
    #[error("{server}: cannot set up TLS: {reason}; check the certificates given there")]
    Tls {
        /// The API server.
        server: String,
        /// Fault of the certificates.
        reason: String,
    },
    /// It answers with an error, or not at all.
    #[error(
        "{server} cannot be used: {reason}; check that it runs, that this host reaches it and that the credentials are \
         its own"
    )]
    Unusable {
        /// The API server.
        server: String,
        /// Error from the API server or from the transport.
        reason: String,
    },
    /// No answer.
    #[error("{server} did not answer within {} s; check that it runs and that this host reaches it", REACH_LIMIT.as_secs())]
    Silent {
        /// The API server.
        server: String,
    },
}

/// An API server and the credentials for it; no call was made yet.
#[derive(Debug, Clone)]
pub struct ApiServerConfig {
    /// Client configuration for the API server.
    pub config: Config,
    /// As `API server https://192.0.2.10:6443 (kubeconfig /etc/kubernetes/admin.conf)`.
    pub name: String,
}

impl ApiServerConfig {
    /// Finds the server that `kubeconfig` names, else that of the cluster this pod runs in. `master` is its URL in place of the one found
    /// there.
    ///
    /// The environment variable `KUBECONFIG` is ignored: a daemon's server must not depend on the user that started it. The variables of
    /// the service account, `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, may be set by hand: before kube-proxy runs, the
    /// address that the kubelet writes there leads nowhere.
    pub async fn find(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Self, ConnectError> {
        let master = master.map(url).transpose()?;
        let (mut config, origin) = if let Some(path) = kubeconfig {
            (load(path, master.is_some()).await?, format!("kubeconfig {}", path.display()))
        } else {
            let environment = |name: &str| std::env::var(name).ok();
            let config = in_cluster(environment, Path::new(ACCOUNT), master.as_ref())?;
            (config, "service account of this pod".to_owned())
        };
        let origin = if let Some(master) = master {
            config.cluster_url = master;
            format!("--master, {origin}")
        } else {
            origin
        };
        config.connect_timeout = Some(CONNECT_LIMIT);
        let url = config.cluster_url.to_string();
        Ok(Self { config, name: format!("API server {} ({origin})", url.trim_end_matches('/')) })
    }

    /// A client for it, whose calls are counted in `metrics` and kept to `limit`.
    pub fn client(&self, limit: Option<RateLimit>, metrics: &ClientMetrics) -> Result<Client, ConnectError> {
        self.usable(crate::client::client(self.config.clone(), limit, metrics))
    }

    /// A client for the election of a leader, whose calls are counted in `metrics`.
    pub fn election_client(&self, metrics: &ClientMetrics) -> Result<Client, ConnectError> {
        self.usable(crate::client::election_client(self.config.clone(), metrics))
    }

    fn usable(&self, client: Result<Client, kube::Error>) -> Result<Client, ConnectError> {
        client.map_err(|error| ConnectError::Tls { server: self.name.clone(), reason: describe(&error) })
    }

    /// Asks the server for its version: `Ok` once it answers.
    pub async fn reach(&self, client: &Client) -> Result<(), ConnectError> {
        let server = self.name.clone();
        match tokio::time::timeout(REACH_LIMIT, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(%server, version = %version.git_version, "reached the API server");
                Ok(())
            }
            Ok(Err(error)) => Err(ConnectError::Unusable { server, reason: describe(&error) }),
            Err(_) => Err(ConnectError::Silent { server }),
        }
    }
}

fn url(text: &str) -> Result<Uri, ConnectError> {
    // As client-go has it: a host alone is an http server.
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let bad = |reason: &str| ConnectError::Master(text.to_owned(), reason.to_owned());
    let url: Uri = full.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(url),
        (Some("http" | "https"), _) => Err(bad("it names no host")),
        _ => Err(bad("it is neither http nor https")),
    }
}

/// Returns the cluster of a pod whose environment names its API server and whose service account is in `account`. Token and CA are read
/// again when they change.
fn in_cluster(
    environment: impl Fn(&str) -> Option<String>,
    account: &Path,
    master: Option<&Uri>,
) -> Result<Config, ConnectError> {
    let missing = |reason: String| ConnectError::NoServer(reason);
    let cluster_url = if let Some(master) = master {
        master.clone()
    } else {
        let of = |name: &str| {
            environment(name)
                .filter(|value| !value.is_empty())
                .ok_or_else(|| missing(format!("{name} is not set")))
        };
        let (host, port) = (of(HOST)?, of(PORT)?);
        let bracketed =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
        let port: u16 = port.parse().map_err(|_| missing(format!("{PORT} {port:?} is not a port number")))?;
        let parsed = format!("https://{bracketed}:{port}").parse();
        parsed.map_err(|error| missing(format!("{HOST} {host:?} is not a host: {error}")))?
    };
    let read = |file: &str| -> Result<(PathBuf, String), ConnectError> {
        let path = account.join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(missing(format!("{}: {error}", path.display()))),
        }
    };
    let (token, _) = read("token")?;
    let (ca, _) = read("ca.crt")?;
    let (_, namespace) = read("namespace")?;
    let mut config = Config::new(cluster_url);
    // Both: from the file alone kube takes nothing at first, and would trust the system's CAs, of which an image has none.
    let roots = CertificateDer::pem_file_iter(&ca)
        .and_then(|roots| roots.map(|root| root.map(|root| root.to_vec())).collect::<Result<Vec<_>, _>>())
        .map_err(|error| missing(format!("{}: {error}", ca.display())))?;
    config.root_cert = Some(roots);
    config.root_cert_file = Some(ca);
    namespace.trim().clone_into(&mut config.default_namespace);
    config.auth_info =
        AuthInfo { token_file: Some(token.to_string_lossy().into_owned()), ..AuthInfo::default() };
    Ok(config)
}

/// `lenient`: the cluster's URL is given otherwise.
async fn load(path: &Path, lenient: bool) -> Result<Config, ConnectError> {
    const ANOTHER: &str = "give another file with --kubeconfig";
    const CORRECT: &str = "correct the file or give another with --kubeconfig";
    let bad = |reason: String, remedy: &'static str| ConnectError::Kubeconfig {
        file: path.display().to_string(),
        reason,
        remedy,
    };
    let mut file = Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(error, _) => {
            bad(error.to_string(), "give a readable file with --kubeconfig")
        }
        KubeconfigError::Parse(error) => bad(format!("not a kubeconfig: {}", one_line(&error)), ANOTHER),
        other => bad(one_line(&other), CORRECT),
    })?;
    if file.clusters.is_empty() {
        return Err(bad("it names no cluster".to_owned(), "give a complete file with --kubeconfig"));
    }
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()).filter(|_| lenient) {
        cluster.server.get_or_insert_with(|| "http://localhost".to_owned());
    }
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.map_err(|error| bad(one_line(&error), CORRECT))
}

/// A message on one line: parsers like to draw the place of the mistake.
fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default().trim_end();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
