//! The fake's machines.

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Node;

use super::{Call, CallGuard, FakeProvider, Method, take_stream};
use crate::provider::{InstanceMetadata, Instances, ProviderError};

impl FakeProvider {
    /// Sets the metadata that is reported for a node's machine from now on.
    pub fn set_metadata(&self, node: &str, metadata: InstanceMetadata) {
        self.lock().metadata.insert(node.to_owned(), metadata);
    }

    /// Sets whether a node's machine exists from now on.
    pub fn set_exists(&self, node: &str, exists: bool) {
        let missing = &mut self.lock().missing;
        if exists {
            missing.remove(node)
        } else {
            missing.insert(node.to_owned())
        };
    }

    /// Sets whether a node's machine is shut down from now on.
    pub fn set_shutdown(&self, node: &str, shutdown: bool) {
        let off = &mut self.lock().off;
        if shutdown {
            off.insert(node.to_owned());
        } else {
            off.remove(node);
        }
    }

    /// Names the Node on [`Instances::node_changes`]. More than 64 unread names are dropped.
    pub fn node_changed(&self, node: &str) {
        drop(self.node_changes_sender.try_send(node.to_owned()));
    }

    fn begin_node(&self, node: &str, call: Call) -> CallGuard<'_> {
        self.begin(format!("node {node}"), call)
    }
}

impl Instances for FakeProvider {
    async fn exists(&self, node: &Node) -> Result<bool, ProviderError> {
        let name = name(node);
        let _busy = self.begin_node(&name, Call::Exists(name.clone()));
        self.apply_script(Method::Exists, &name).await?;
        Ok(!self.lock().missing.contains(&name))
    }

    async fn shutdown(&self, node: &Node) -> Result<bool, ProviderError> {
        let name = name(node);
        let _busy = self.begin_node(&name, Call::Shutdown(name.clone()));
        self.apply_script(Method::Shutdown, &name).await?;
        Ok(self.lock().off.contains(&name))
    }

    async fn metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        let name = name(node);
        let _busy = self.begin_node(&name, Call::Metadata(name.clone()));
        self.apply_script(Method::Metadata, &name).await?;
        Ok(self.lock().metadata.get(&name).cloned())
    }

    fn node_changes(&self) -> BoxStream<'static, String> {
        take_stream(&self.node_changes_for_controller)
    }
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}
