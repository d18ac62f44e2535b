//! Reasons and messages of the events on a Service: a contract with users and their tools (service-contract S-20).

pub(crate) const ENSURING: &str = "EnsuringLoadBalancer";
pub(crate) const ENSURING_MESSAGE: &str = "Ensuring load balancer";
pub(crate) const ENSURED: &str = "EnsuredLoadBalancer";
pub(crate) const ENSURED_MESSAGE: &str = "Ensured load balancer";
pub(crate) const DELETING: &str = "DeletingLoadBalancer";
pub(crate) const DELETING_MESSAGE: &str = "Deleting load balancer";
pub(crate) const DELETED: &str = "DeletedLoadBalancer";
pub(crate) const DELETED_MESSAGE: &str = "Deleted load balancer";
pub(crate) const UNAVAILABLE: &str = "UnAvailableLoadBalancer";
pub(crate) const UNAVAILABLE_MESSAGE: &str = "There are no available nodes for LoadBalancer";
pub(crate) const UPDATED: &str = "UpdatedLoadBalancer";
pub(crate) const UPDATED_MESSAGE: &str = "Updated load balancer with new hosts";

pub(crate) const SYNC_FAILED: &str = "SyncLoadBalancerFailed";
pub(crate) const SYNC_FAILED_MESSAGE: &str = "Error syncing load balancer:";
pub(crate) const DELETE_FAILED: &str = "DeleteLoadBalancerFailed";
pub(crate) const DELETE_FAILED_MESSAGE: &str = "Error deleting load balancer:";
pub(crate) const UPDATE_FAILED: &str = "UpdateLoadBalancerFailed";
pub(crate) const UPDATE_FAILED_MESSAGE: &str = "Error updating load balancer with new hosts";

/// Reasons of the events on Services, as upstream's service controller has them.
pub const EVENT_REASONS: [&str; 9] =
    [ENSURING, ENSURED, DELETING, DELETED, UNAVAILABLE, UPDATED, SYNC_FAILED, DELETE_FAILED, UPDATE_FAILED];

/// Failed steps, as events name them (service-contract S-12, S-13, S-15).
pub(crate) const CHECK_EXISTS: &str = "failed to check if load balancer exists before cleanup";
pub(crate) const DELETE: &str = "failed to delete load balancer";
pub(crate) const REMOVING_FINALIZER: &str = "failed to remove load balancer cleanup finalizer";
pub(crate) const ADDING_FINALIZER: &str = "failed to add load balancer cleanup finalizer";
pub(crate) const ENSURE: &str = "failed to ensure load balancer";
pub(crate) const UPDATING_STATUS: &str = "failed to update load balancer status";
