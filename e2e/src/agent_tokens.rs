//! Light only: tokens of agents as kubelets hand them to the pods of the DaemonSet, which say on which node the pod is.

use anyhow::Context as _;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{control_plane, lab::Lab};

/// Namespace of the pods.
pub(crate) const NAMESPACE: &str = "windlass-system";
/// Longer than any scenario.
const LIFETIME_SECONDS: u32 = 86_400;
const ACCOUNT: &str = "windlass-agent";

/// The account whose kubeconfig has the token of the agent of this node.
pub(crate) fn account(node: &str) -> String {
    format!("agent-{node}")
}

impl Lab {
    /// [`Self::bind_agent_token`] for each node. The manifests are installed.
    pub(crate) async fn bind_agent_tokens(&self) -> anyhow::Result<()> {
        for node in self.nodes() {
            self.bind_agent_token(node.name()).await?;
        }
        Ok(())
    }

    /// Writes the pod that an agent would be on a node and has a token bound to it.
    pub(crate) async fn bind_agent_token(&self, node: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), NAMESPACE);
        let name = format!("{ACCOUNT}-{node}");
        let pod: Pod = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "serviceAccountName": ACCOUNT,
                "containers": [{"name": "agent", "image": "windlass"}],
            },
        }))?;
        let pod = pods.patch(&name, &PatchParams::apply("windlass-lab").force(), &Patch::Apply(pod)).await;
        let uid = pod.with_context(|| format!("writing Pod {name}"))?.uid();
        let request: TokenRequest = serde_json::from_value(json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": {
                "audiences": [],
                "expirationSeconds": LIFETIME_SECONDS,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
            },
        }))?;
        let made = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await;
        let made = made.with_context(|| format!("asking for a token bound to Pod {name}"))?;
        let token = made.status.and_then(|status| status.token).context("a TokenRequest without a token")?;
        self.pki.add_account(&account(node), &token)
    }

    /// A client with the rights of an account, as [`Lab::kubeconfig`] has them: `agent-n1` is the agent of node `n1`, once the
    /// manifests are installed.
    pub async fn client_of(&self, account: &str) -> anyhow::Result<Client> {
        control_plane::client(&self.kubeconfig(account)).await
    }
}
