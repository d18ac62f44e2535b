//! Request of a Service, its addresses, and the verdict on each pool. Pure.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use serde::Serialize;
use windlass_api::{ServiceRef, VirtualIP, VirtualIPPool};
use windlass_controller::{allocator, owner, pool_policy, request};
use windlass_ipam::{Allocator, Families, Labels, Pool, PoolRefusal, Request};

use super::Details;
use crate::inspect::snapshot::{Snapshot, allocated, full_name, shown};

/// A Service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceStory {
    pub(super) service: String,
    class: Option<String>,
    created: Option<Time>,
    /// Its request, in words.
    pub(super) asks_for: Vec<String>,
    /// Addresses in its status.
    pub(super) shows: Vec<String>,
    /// Its condition AddressAllocated; absent: no controller has set it.
    pub(super) condition: Option<Condition>,
    /// The rule by which the pool of its addresses was chosen, as far as it can be determined afterwards; absent: it has no address.
    pub(super) rule: Option<String>,
    /// The pools in the order in which they are searched.
    pub(super) pools: Vec<PoolVerdict>,
}

/// Verdict on a pool for a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolVerdict {
    pub(super) pool: String,
    pub(super) priority: i32,
    /// True if it may give the Service an address.
    pub(super) usable: bool,
    /// Reason for the verdict.
    pub(super) why: String,
}

impl ServiceStory {
    pub(super) fn of(service: &Service, snapshot: &Snapshot, details: &Details) -> Self {
        let (request, asks_for) = match read(service, snapshot, details) {
            Ok(request) => {
                let words = in_words(&request);
                (Some(request), words)
            }
            Err(error) => (None, vec![format!("what cannot be read: {error}")]),
        };
        let verdicts = request.as_ref().map_or_else(Vec::new, |request| verdicts(service, request, snapshot));
        Self {
            service: full_name(service),
            class: service.spec.as_ref().and_then(|spec| spec.load_balancer_class.clone()),
            created: service.metadata.creation_timestamp.clone(),
            asks_for,
            shows: shown(service),
            condition: allocated(service).cloned(),
            rule: request
                .as_ref()
                .zip(vip(service, snapshot))
                .map(|(request, vip)| rule(request, vip, &verdicts)),
            pools: verdicts,
        }
    }
}

/// The first of its addresses.
fn vip<'a>(service: &Service, snapshot: &'a Snapshot) -> Option<&'a VirtualIP> {
    let uid = service.metadata.uid.as_ref()?;
    let is_owner = |vip: &&VirtualIP| {
        vip.spec.quarantine.is_none() && vip.spec.owners.iter().any(|owner| owner.uid == *uid)
    };
    snapshot.vips.objects.iter().find(is_owner)
}

/// Returns the rule by which its address comes from its pool. Pools may have changed since.
fn rule(request: &Request, vip: &VirtualIP, verdicts: &[PoolVerdict]) -> String {
    let pool = &vip.spec.pool;
    if !request.addresses.is_empty() {
        return "the Service names its addresses".to_owned();
    }
    if let Some(named) = &request.pool {
        return format!("the Service names pool {named}");
    }
    if request.terms.sharing.is_some() && vip.spec.owners.len() > 1 {
        return format!("it shares {}, which comes before what is free", vip.spec.address);
    }
    match verdicts.iter().find(|one| one.usable) {
        Some(first) if first.pool == *pool => format!("of the pools that it may use, {pool} is the first"),
        Some(first) => {
            format!(
                "{pool} gave it; {} comes first now, and had no address left then or came or changed since",
                first.pool
            )
        }
        None => format!("{pool} gave it, and no pool would today: what was given stays"),
    }
}

/// The request, as the controller reads it.
fn read(service: &Service, snapshot: &Snapshot, details: &Details) -> Result<Request, String> {
    let namespace = service.namespace().unwrap_or_default();
    let labels: Labels = details
        .namespaces
        .iter()
        .find(|one| one.name_any() == namespace)
        .and_then(|one| one.metadata.labels.clone())
        .unwrap_or_default();
    request(service, &labels, snapshot.settings()).map_err(|error| error.to_string())
}

fn in_words(request: &Request) -> Vec<String> {
    let families = match request.families {
        Families::Single(family) => format!("{family}"),
        Families::Prefer([first, second]) => format!("{first} and, if it can be had, {second}"),
        Families::Require(_) => "IPv4 and IPv6".to_owned(),
    };
    let mut words = vec![families];
    if request.count > 1 {
        words.push(format!("{} addresses of each family", request.count));
    }
    if !request.addresses.is_empty() {
        let named: Vec<String> = request.addresses.iter().map(ToString::to_string).collect();
        words.push(format!("the addresses {}", named.join(", ")));
    }
    if let Some(pool) = &request.pool {
        words.push(format!("pool {pool}"));
    }
    if let Some(sharing) = &request.terms.sharing {
        words.push(format!("to share with Services of the key {}", sharing.key));
    }
    words
}

/// The verdict on each pool, in the order in which they are searched.
fn verdicts(service: &Service, request: &Request, snapshot: &Snapshot) -> Vec<PoolVerdict> {
    let mut pools: Vec<(&VirtualIPPool, Pool)> = snapshot
        .pools
        .objects
        .iter()
        .map(|pool| (pool, Pool::new(pool.name_any(), []).with_policy(pool_policy(&pool.spec))))
        .collect();
    pools.sort_by_cached_key(|(_, pool)| (pool.policy.priority, !pool.policy.selects(), pool.name.clone()));
    let is_confined = pools.iter().any(|(_, pool)| pool.policy.confines(&request.requester));
    let allocator = allocator(&snapshot.pools.objects, &snapshot.vips.objects, snapshot.now);
    let owner = owner(service);
    pools
        .iter()
        .map(|(object, pool)| {
            let reached = owner.as_ref().and_then(|owner| reached_limit(&allocator, owner, request, pool));
            let (usable, why) = match verdict(request, object, pool, is_confined) {
                (true, _) if reached.is_some() => (false, reached.unwrap_or_default()),
                verdict => verdict,
            };
            PoolVerdict { pool: pool.name.clone(), priority: pool.policy.priority, usable, why }
        })
        .collect()
}

/// The limit of the pool that keeps the Service from what it asks for, in words, by the allocator's own count.
fn reached_limit(
    allocator: &Allocator<ServiceRef>,
    owner: &ServiceRef,
    request: &Request,
    pool: &Pool,
) -> Option<String> {
    let mut families = request.families.list().iter();
    let why = families.find_map(|family| allocator.reached_limit(owner, request, &pool.name, *family));
    why.map(|why| PoolRefusal::new(pool, why).to_string())
}

fn verdict(request: &Request, object: &VirtualIPPool, pool: &Pool, is_confined: bool) -> (bool, String) {
    if let Some(why) = pool.policy.refuses(&request.requester) {
        return (false, PoolRefusal::new(pool, why).to_string());
    }
    match &request.pool {
        Some(named) if *named != pool.name => return (false, format!("the Service names pool {named}")),
        None if !pool.policy.auto_assign && request.addresses.is_empty() => {
            return (false, "it is for Services that name it (autoAssign: false)".to_owned());
        }
        Some(_) | None => {}
    }
    if is_confined && !pool.policy.confines(&request.requester) && !pool.policy.selects_namespaces() {
        return (false, "another pool is the only one of the namespace (whenFull: Wait)".to_owned());
    }
    let status = object.status.as_ref();
    let left = [
        ("IPv4", status.and_then(|one| one.ipv4.as_ref())),
        ("IPv6", status.and_then(|one| one.ipv6.as_ref())),
    ];
    let left: Vec<String> = left
        .into_iter()
        .filter_map(|(family, counts)| {
            Some(format!("{} of {} {family} addresses left", counts?.available, counts?.total))
        })
        .collect();
    let left = if left.is_empty() {
        "no controller has counted its addresses yet".to_owned()
    } else {
        left.join(", ")
    };
    (true, left)
}
