//! A lab: its parts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use anyhow::Context as _;
use kube::Client;

use crate::{
    backend::LightServer, builder::LabBuilder, cgroups::Cgroup, daemons::Daemons, logind::Logind, pki::Pki,
    sandbox::Sandbox, tools::Tools, topology::Host,
};

/// A running cluster on a LAN of its own. All of it ends when this value is dropped or its process ends.
pub struct Lab {
    pub(crate) name: String,
    pub(crate) options: LabBuilder,
    pub(crate) hosts: Vec<Host>,
    pub(crate) tools: Tools,
    pub(crate) pki: Pki,
    pub(crate) daemons: Arc<Daemons>,
    pub(crate) client: Client,
    /// Stand-ins for logind, of nodes with kubelets.
    pub(crate) logind: Mutex<BTreeMap<String, Logind>>,
    /// Servers of the light variant by backend.
    pub(crate) servers: Mutex<BTreeMap<String, Vec<LightServer>>>,
    pub(crate) folder: PathBuf,
    // The order of the last two matters: cgroups can be removed only when their processes are gone.
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) _cgroup: Cgroup,
}

impl Lab {
    /// Returns the default configuration of a lab.
    pub fn builder() -> LabBuilder {
        LabBuilder::default()
    }

    /// Name of the lab.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client with all rights. Usable within the body (its thread is in the network namespace `cp`).
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Path of the kubeconfig of an account, for use within the lab: `admin`; `controller` and `agent`, the service
    /// accounts of Windlass, which have the rights that the project's manifests give them; `agent-n1`, the agent of node `n1` with a
    /// token that says so, once the manifests are installed; or a node's name.
    pub fn kubeconfig(&self, account: &str) -> PathBuf {
        self.pki.kubeconfig(account)
    }

    /// The folder of the logs.
    pub fn logs(&self) -> &Path {
        self.sandbox.logs()
    }

    /// The folder of everything that stays of the lab: logs, certificates, kubeconfigs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A host of the LAN: `cp`, a node or a client.
    pub fn host(&self, name: &str) -> anyhow::Result<&Host> {
        self.hosts
            .iter()
            .find(|host| host.name == name)
            .with_context(|| format!("the lab has no host {name:?}"))
    }

    /// Path of one of the lab's tools, as `kubectl`.
    pub fn tool(&self, name: &str) -> String {
        self.tools.path(name)
    }

    /// Process id of the lab's init as the host sees it: `nsenter -t <id> -m -p --net=/run/netns/…` enters the lab.
    pub fn init(&self) -> i32 {
        self.sandbox.init()
    }
}
