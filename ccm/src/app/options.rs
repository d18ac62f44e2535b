//! The flags, checked: how this process runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::controllers::{ControllerName, select};
use super::duration::GoDuration;
use super::flag_error::FlagError;
use super::flags::{ControllerFlags, ElectionFlags, Flags};
use super::serving_flags::non_empty;
use crate::client::RateLimit;
use crate::lease::ElectionOptions;
use crate::node::NodeOptions;
use crate::node::lifecycle::LifecycleOptions;
use crate::service::ServiceOptions;
use crate::serving::ServingOptions;

#[cfg(test)]
mod tests;

/// Options of a cloud-controller-manager.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// `--cloud-config`.
    pub cloud_config: Option<PathBuf>,
    /// `--kubeconfig`; `None`: the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--kube-api-qps`, `--kube-api-burst`; `None`: no limit.
    pub rate: Option<RateLimit>,
    /// The controllers to start, as far as the provider has what they need.
    pub controllers: BTreeSet<ControllerName>,
    /// `None`: work without election.
    pub election: Option<ElectionOptions>,
    /// The service controller.
    pub services: ServiceOptions,
    /// The node controller.
    pub nodes: NodeOptions,
    /// `--node-monitor-period`.
    pub node_monitor_period: Duration,
    /// `--concurrent-node-lifecycle-syncs`; at least one.
    pub concurrent_node_lifecycle_syncs: usize,
    /// Time between the starts of two controllers.
    pub start_interval: Duration,
    /// The HTTPS port.
    pub serving: ServingOptions,
    /// Warnings about the flags, logged once.
    pub warnings: Vec<String>,
}

impl Default for ManagerOptions {
    /// As without flags, but without election.
    fn default() -> Self {
        Self {
            cloud_config: None,
            kubeconfig: None,
            master: None,
            rate: None,
            controllers: ControllerName::ALL
                .into_iter()
                .filter(|name| *name != ControllerName::Route)
                .collect(),
            election: None,
            services: ServiceOptions::default(),
            nodes: NodeOptions::default(),
            node_monitor_period: Duration::from_secs(5),
            concurrent_node_lifecycle_syncs: LifecycleOptions::default().workers,
            start_interval: Duration::ZERO,
            serving: ServingOptions::default(),
            warnings: Vec::new(),
        }
    }
}

impl Flags {
    /// Checks the flags for the provider of this name; `identity` is this process' among the candidates for leader.
    pub fn options(&self, provider: &str, identity: String) -> Result<ManagerOptions, FlagError> {
        let own = || provider.to_owned();
        match non_empty(self.cloud_provider.as_deref()) {
            None => {}
            Some(name) if name == provider => {}
            Some("external") => return Err(FlagError::External { own: own() }),
            Some(other) => return Err(FlagError::OtherProvider { given: other.to_owned(), own: own() }),
        }
        let mut warnings: Vec<String> = self.ignored.warnings().collect();
        let selection = select(&self.controllers.controllers)?;
        let mut enabled = selection.enabled;
        if enabled.remove(&ControllerName::Route) && selection.named.contains(&ControllerName::Route) {
            let name = ControllerName::Route.as_str();
            warnings.push(format!(
                "--controllers: {name} is not started: routes between pods are the network plugin's"
            ));
        }
        if enabled.is_empty() {
            warnings
                .push("--controllers selects no controller: this process does nothing but lead".to_owned());
        }
        Ok(ManagerOptions {
            cloud_config: non_empty(self.cloud_config.as_deref()).map(PathBuf::from),
            kubeconfig: non_empty(self.kubeconfig.as_deref()).map(PathBuf::from),
            master: non_empty(self.master.as_deref()).map(str::to_owned),
            rate: RateLimit::from_flags(self.kube_api_qps, self.kube_api_burst)?,
            controllers: enabled,
            election: self.election.options(identity)?,
            services: self.controllers.services()?,
            nodes: self.controllers.nodes()?,
            node_monitor_period: period("node-monitor-period", self.controllers.node_monitor_period)?,
            concurrent_node_lifecycle_syncs: positive(
                "concurrent-node-lifecycle-syncs",
                self.controllers.concurrent_node_lifecycle_syncs,
            )?,
            start_interval: self.controllers.controller_start_interval.0,
            serving: self.serving.options()?,
            warnings,
        })
    }
}

impl ControllerFlags {
    fn services(&self) -> Result<ServiceOptions, FlagError> {
        Ok(ServiceOptions {
            cluster_name: self.cluster_name.clone(),
            workers: positive("concurrent-service-syncs", self.concurrent_service_syncs)?,
            ..ServiceOptions::default()
        })
    }

    fn nodes(&self) -> Result<NodeOptions, FlagError> {
        const UPDATES: &str = "concurrent-node-status-updates";
        let syncs = positive("concurrent-node-syncs", self.concurrent_node_syncs)?;
        let updates = match usize::try_from(self.concurrent_node_status_updates) {
            Ok(0) => syncs,
            Ok(updates) => updates,
            Err(_) => {
                let value = self.concurrent_node_status_updates.to_string();
                return Err(FlagError::Negative { flag: UPDATES, value });
            }
        };
        Ok(NodeOptions {
            // Both kinds of work go through one queue, which never works on one node twice at a time.
            workers: syncs.max(updates),
            refresh_period: period("node-status-update-frequency", self.node_status_update_frequency)?,
            ..NodeOptions::default()
        })
    }
}

impl ElectionFlags {
    fn options(&self, identity: String) -> Result<Option<ElectionOptions>, FlagError> {
        if self.leader_elect_resource_lock != "leases" {
            return Err(FlagError::Lock(self.leader_elect_resource_lock.clone()));
        }
        if !self.leader_elect {
            return Ok(None);
        }
        let options = ElectionOptions {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
            identity,
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
        };
        options.check()?;
        Ok(Some(options))
    }
}

fn positive(flag: &'static str, value: i32) -> Result<usize, FlagError> {
    let count = usize::try_from(value).ok().filter(|count| *count > 0);
    count.ok_or_else(|| FlagError::NotPositive { flag, value: value.to_string() })
}

fn period(flag: &'static str, GoDuration(duration): GoDuration) -> Result<Duration, FlagError> {
    if duration.is_zero() {
        return Err(FlagError::NotPositive { flag, value: GoDuration(duration).to_string() });
    }
    Ok(duration)
}
