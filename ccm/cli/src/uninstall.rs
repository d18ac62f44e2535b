//! `windlass uninstall`: removes the remains of Windlass from a cluster from which its controller and agents are gone: finalizers, which
//! block the deletion of Services, addresses that no node announces, and its own objects. Pools and Announcements are the admin's.

mod cleanup;

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::app::CloudProvider as _;
use windlass_ccm::lease::program;
use windlass_ccm::lenient::Lenient;
use windlass_controller::Windlass;

use self::cleanup::{Given, cleanup};

/// Leases that controllers renew by default: as cloud-controller-manager, and by the manifests as load balancer only.
const LEASES: [(&str, &str); 2] =
    [("kube-system", "cloud-controller-manager"), ("windlass-system", "windlass-controller")];
/// Time without a renewal after which the holder of a lease counts as stopped.
const SILENCE: Duration = Duration::from_secs(15);
/// Number of attempts at a Service that other clients change meanwhile.
const ATTEMPTS: u32 = 5;

/// Options of an uninstallation.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// True if the actions are printed and not taken.
    pub dry_run: bool,
    /// True to continue although a controller renews its lease, as another cloud controller manager does.
    pub even_so: bool,
}

/// Removes all of it, and prints each thing on standard output. A failure is reported, and does not prevent the rest.
///
/// # Errors
/// A controller works still, the API server does not answer, or something is left.
pub async fn run(client: Client, options: Options) -> anyhow::Result<()> {
    if !options.even_so {
        for lease in LEASES {
            refuse_while_one_works(&client, lease).await?;
        }
    }
    let vips = list::<VirtualIP>(&client).await?;
    let given = Given::of(vips.as_deref());
    let services: Api<Service> = Api::all(client.clone());
    let services = services.list(&ListParams::default()).await.context("cannot list the Services")?;
    let mut left = Vec::new();
    for service in services {
        let name = format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any());
        if let Err(error) = clean(&client, service, &given, options).await {
            left.push(format!("Service {name}: {error:#}"));
        }
    }
    // Objects come last: they record which Services Windlass served, in case this process stops early.
    let objects = [
        delete_all::<VirtualIP>(&client, options).await,
        delete_all::<VirtualRouter>(&client, options).await,
        delete_all::<NodeNetwork>(&client, options).await,
    ];
    left.extend(objects.into_iter().filter_map(|done| done.err().map(|error| format!("{error:#}"))));
    let pools = list::<VirtualIPPool>(&client).await?.unwrap_or_default().len();
    let announcements = list::<Announcement>(&client).await?.unwrap_or_default().len();
    if pools + announcements > 0 {
        println!(
            "kept: {pools} VirtualIPPools and {announcements} Announcements. Run `kubectl delete -f manifests/crds` to remove \
             them and their definitions"
        );
    }
    ensure!(
        left.is_empty(),
        "{} steps failed; correct the errors and run `windlass uninstall` again: {}",
        left.len(),
        left.join("; ")
    );
    Ok(())
}

/// Fails while a controller renews this lease: it would write all of it again.
async fn refuse_while_one_works(client: &Client, lease: (&str, &str)) -> anyhow::Result<()> {
    let (namespace, name) = lease;
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(name).await.context("cannot read the lease of the controllers")?;
    let Some(Lease { metadata, spec: Some(spec) }) = lease else { return Ok(()) };
    // Another cloud-controller-manager writes none of what is to be removed.
    if program(&metadata).is_some_and(|name| name != Windlass::NAME) {
        return Ok(());
    }
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    if let (Some(holder), Some(renewed)) = (holder, spec.renew_time) {
        let since = Timestamp::now().duration_since(renewed.0).unsigned_abs();
        if since < SILENCE {
            bail!(
                "lease {namespace}/{name} was renewed {} s ago by {holder}: a running controller would write everything again. \
                 Remove Windlass first (kubectl delete -k manifests), or give --even-so if {holder} is another cloud controller manager",
                since.as_secs()
            );
        }
    }
    Ok(())
}

async fn clean(client: &Client, service: Service, given: &Given, options: Options) -> anyhow::Result<()> {
    let name = service.name_any();
    let namespace = service.namespace().unwrap_or_default();
    let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let mut service = service;
    for _ in 0..ATTEMPTS {
        let Some(cleanup) = cleanup(&service, given) else { return Ok(()) };
        if !options.dry_run {
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&cleanup.patch)).await {
                Ok(_) => {}
                // Gone meanwhile, or changed.
                Err(Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(Error::Api(status)) if status.code == 409 => {
                    let Some(newer) = api.get_opt(&name).await? else { return Ok(()) };
                    service = newer;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        println!("Service {namespace}/{name}: {}: {}", removed(options), cleanup.what.join(", "));
        return Ok(());
    }
    bail!(
        "another program changed the Service during every attempt; stop that program, and run `windlass uninstall` again"
    )
}

/// All objects of a kind; `None`: there is no such kind.
async fn list<K>(client: &Client) -> anyhow::Result<Option<Vec<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let objects = Api::<Lenient<K>>::all(client.clone()).list(&ListParams::default()).await;
    let objects = if_there(objects).with_context(|| format!("cannot list the {}s", K::kind(&())))?;
    // What cannot be read says nothing of its owners.
    Ok(objects.map(|objects| objects.into_iter().filter_map(|object| object.read().ok()).collect()))
}

async fn delete_all<K>(client: &Client, options: Options) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&());
    let api: Api<K> = Api::all(client.clone());
    let objects = if_there(api.list_metadata(&ListParams::default()).await);
    let objects = objects.with_context(|| format!("cannot list the {kind}s"))?.map(|list| list.items);
    let Some(objects) = objects.filter(|objects| !objects.is_empty()) else { return Ok(()) };
    for name in objects.iter().filter(|_| !options.dry_run).map(ResourceExt::name_any) {
        let deleted = if_there(api.delete(&name, &DeleteParams::default()).await);
        deleted.with_context(|| format!("cannot delete {kind} {name}"))?;
    }
    println!("{}: {} {kind}s", removed(options), objects.len());
    Ok(())
}

/// `None`: there is no such object, or no such kind.
fn if_there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        answer => answer.map(Some),
    }
}

const fn removed(options: Options) -> &'static str {
    if options.dry_run { "would be removed" } else { "removed" }
}
