//! `windlass explain`: why a Service waits, or the whole path to an address. Pure.

mod address;
mod ranking;
mod service;
mod sharing;
mod text;

use std::net::IpAddr;

use anyhow::bail;
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use windlass_api::{ServiceRef, VirtualIP};

use self::address::AddressStory;
use self::service::ServiceStory;
pub(super) use self::sharing::Client;
use super::details::Details;
use super::problems::{self, Problem, Severity};
use super::snapshot::{Snapshot, service_ref};

#[cfg(test)]
mod tests;

/// Maximum number of events that are shown: the newest.
const EVENTS: usize = 10;

/// Subject of an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Service { namespace: String, name: String },
    Address(IpAddr),
}

impl Subject {
    /// Parses a subject as a user writes it, in a namespace: `web`, `shop/web` or `192.0.2.10`.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn parse(text: &str, namespace: &str) -> anyhow::Result<Self> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        if namespace.is_empty() || name.is_empty() || name.contains(['/', ':']) {
            bail!("'{text}' is neither a Service nor an address; write it as web, shop/web or 192.0.2.10");
        }
        Ok(Self::Service { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The Services that it is about.
    pub(super) fn owners(&self, snapshot: &Snapshot) -> Vec<ServiceRef> {
        match self {
            Self::Service { .. } => self.service(snapshot).map(service_ref).into_iter().collect(),
            Self::Address(address) => {
                vip(snapshot, *address).map_or_else(Vec::new, |vip| vip.spec.owners.clone())
            }
        }
    }

    fn service<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Service> {
        let Self::Service { namespace, name } = self else { return None };
        snapshot.services.objects.iter().find(|service| {
            service.metadata.namespace.as_ref() == Some(namespace)
                && service.metadata.name.as_ref() == Some(name)
        })
    }
}

fn vip(snapshot: &Snapshot, address: IpAddr) -> Option<&VirtualIP> {
    snapshot.vips.objects.iter().find(|vip| vip.spec.address == address)
}

/// An event about a Service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventStory {
    /// Time at which it was last seen.
    time: Option<Time>,
    service: String,
    reason: String,
    message: String,
}

/// The whole story.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// Problems of the subject, the worst first.
    problems: Vec<Problem>,
    services: Vec<ServiceStory>,
    addresses: Vec<AddressStory>,
    /// Mode of kube-proxy by its settings in `kube-system`; absent: they are not there.
    kube_proxy_mode: Option<String>,
    /// Events that controllers sent about the Services, the newest first, as far as the API server still has them.
    events: Vec<EventStory>,
    /// Parts of the cluster that could not be read.
    unread: Vec<String>,
}

impl Explanation {
    /// Explains one Service or address, and which node serves `client` there.
    ///
    /// # Errors
    /// There is nothing of that name, as far as the cluster could be read.
    pub(super) fn of(
        subject: &Subject,
        client: Option<Client>,
        snapshot: &Snapshot,
        details: &Details,
    ) -> anyhow::Result<Self> {
        let owners = subject.owners(snapshot);
        let is_owner = |service: &&Service| {
            service.metadata.uid.as_ref().is_some_and(|uid| owners.iter().any(|owner| owner.uid == *uid))
        };
        let services: Vec<&Service> = snapshot.services.objects.iter().filter(is_owner).collect();
        let addresses: Vec<IpAddr> = match subject {
            Subject::Address(address) => vec![*address],
            Subject::Service { namespace, name } => {
                if services.is_empty() && snapshot.services.missing.is_none() {
                    bail!(
                        "there is no Service {namespace}/{name}; `windlass services --all-namespaces` lists those of type LoadBalancer"
                    );
                }
                let vips = snapshot.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none());
                let is_of = |vip: &&VirtualIP| vip.spec.owners.iter().any(|owner| owners.contains(owner));
                let mut all: Vec<IpAddr> = vips.filter(is_of).map(|vip| vip.spec.address).collect();
                all.sort();
                all
            }
        };
        let story = |address| AddressStory::of(address, client, snapshot, details);
        let addresses: Vec<AddressStory> = addresses.into_iter().map(story).collect();
        if let [story] = &addresses[..]
            && story.is_unknown()
            && snapshot.missing().next().is_none()
        {
            bail!(
                "{} is in no pool, and no Service has it; `windlass vips` lists the addresses in use",
                story.address
            );
        }
        Ok(Self {
            problems: problems_of(&services, &addresses, snapshot),
            services: services.iter().map(|service| ServiceStory::of(service, snapshot, details)).collect(),
            addresses,
            kube_proxy_mode: details.kube_proxy.as_ref().map(|settings| settings.mode.clone()),
            events: events(details),
            unread: snapshot.missing().map(|missing| missing.message.clone()).collect(),
        })
    }

    /// Returns true if the subject does not work.
    pub(super) fn has_problem(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Returns the problems of these, and of the objects that they depend on.
fn problems_of(services: &[&Service], addresses: &[AddressStory], snapshot: &Snapshot) -> Vec<Problem> {
    let names: Vec<String> = services.iter().map(|service| super::snapshot::full_name(*service)).collect();
    let concerns = |problem: &Problem| match problem.kind {
        "Service" => names.contains(&problem.name),
        "VirtualIP" => addresses.iter().any(|story| story.address.to_string() == problem.name),
        "VirtualRouter" => {
            addresses.iter().flat_map(|story| &story.router).any(|router| router.name == problem.name)
        }
        "VirtualIPPool" => addresses.iter().any(|story| story.pool.as_ref() == Some(&problem.name)),
        "Announcement" => addresses.iter().any(|story| story.announcement.as_ref() == Some(&problem.name)),
        // Without a controller nothing changes any more.
        "Lease" | "Kind" => true,
        _ => false,
    };
    problems::all(snapshot).into_iter().filter(concerns).collect()
}

fn events(details: &Details) -> Vec<EventStory> {
    let time = |event: &Event| {
        let last = event.last_timestamp.clone();
        last.or_else(|| event.event_time.as_ref().map(|time| Time(time.0))).or(event.first_timestamp.clone())
    };
    let mut events: Vec<EventStory> = details
        .events
        .iter()
        .map(|event| EventStory {
            time: time(event),
            service: [&event.involved_object.namespace, &event.involved_object.name]
                .map(|part| part.clone().unwrap_or_default())
                .join("/"),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
        })
        .collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.time.as_ref().map(|time| time.0)));
    events.truncate(EVENTS);
    events
}
