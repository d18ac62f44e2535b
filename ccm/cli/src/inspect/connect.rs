//! The API server of a person, found as kubectl finds it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use windlass_ccm::app::ApiServerConfig;
use windlass_common::http;

use super::args::ClusterArgs;

/// Longest time to set up a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The server's name for messages, the namespace of the context, and a client. No call is made yet.
///
/// # Errors
/// No API server is known.
pub(super) async fn connect(args: &ClusterArgs) -> anyhow::Result<(String, String, Client)> {
    let ClusterArgs { kubeconfig, context, .. } = args;
    let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    let found = match read(kubeconfig.as_deref())? {
        Some(file) => {
            let mut config = Config::from_custom_kubeconfig(file, &options).await.with_context(|| {
                let context = context
                    .as_ref()
                    .map_or("the current context".to_owned(), |context| format!("context {context}"));
                format!(
                    "{context} of the kubeconfig cannot be used; `kubectl config get-contexts` lists what there is, \
                     --context takes another"
                )
            })?;
            config.connect_timeout = Some(CONNECT_LIMIT);
            let name = config.cluster_url.to_string();
            ApiServerConfig { name: name.trim_end_matches('/').to_owned(), config }
        }
        None if context.is_some() => anyhow::bail!(
            "there is no kubeconfig (--kubeconfig, $KUBECONFIG, ~/.kube/config) that --context could be of; name one"
        ),
        None => ApiServerConfig::find(None, None)
            .await
            .context("there is no kubeconfig (--kubeconfig, $KUBECONFIG, ~/.kube/config)")?,
    };
    let namespace = found.config.default_namespace.clone();
    let (_, calls) = http::registry()?;
    let client = found.client(None, &calls)?;
    Ok((found.name, namespace, client))
}

/// The kubeconfig; `None`: there is none where kubectl looks for it.
fn read(file: Option<&Path>) -> anyhow::Result<Option<Kubeconfig>> {
    if let Some(file) = file {
        let read = Kubeconfig::read_from(file);
        let remedy =
            || format!("kubeconfig {} cannot be read; give another with --kubeconfig", file.display());
        return read.map(Some).with_context(remedy);
    }
    let is_named = std::env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
    let home = std::env::home_dir().map(|home| home.join(".kube/config"));
    if !is_named && !home.is_some_and(|file| file.exists()) {
        return Ok(None);
    }
    let read = Kubeconfig::read();
    read.map(Some).context("the kubeconfig cannot be read; give another with --kubeconfig")
}
