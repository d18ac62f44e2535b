//! Invariants of Services, `VirtualIP`s and pools in a cluster at rest, after any history.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use anyhow::ensure;
use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{Api, ResourceExt as _, api::ListParams};
use windlass_api::{
    ANNOTATION_SHARE_WITH, ANNOTATION_SHARING_KEY, AddressCounts, CONDITION_ADDRESS_ALLOCATED, VirtualIP,
    VirtualIPPool,
};
use windlass_ipam::{AddressRange, AddressSet, Port, Protocol, Sharing, Terms, TrafficPolicy};

use crate::{Lab, await_that};

/// Time after its end for which a quarantine may still be present.
const GRACE: Duration = Duration::from_secs(10);

/// State of the cluster at one moment, as nearly as three lists can show it.
#[derive(Debug, Default)]
pub struct Picture {
    /// Services of every namespace.
    pub services: Vec<Service>,
    /// Every claim.
    pub virtual_ips: Vec<VirtualIP>,
    /// Every pool; they must not overlap.
    pub pools: Vec<VirtualIPPool>,
}

impl Lab {
    /// Reads the present state of the cluster.
    pub async fn picture(&self) -> anyhow::Result<Picture> {
        let (services, virtual_ips, pools) =
            (Api::all(self.client()), Api::all(self.client()), Api::all(self.client()));
        let all = ListParams::default();
        let (services, virtual_ips, pools) =
            futures::try_join!(services.list(&all), virtual_ips.list(&all), pools.list(&all))?;
        Ok(Picture { services: services.items, virtual_ips: virtual_ips.items, pools: pools.items })
    }

    /// Waits until nothing is wrong with what the cluster shows. Every LoadBalancer Service has to be Windlass' to serve.
    pub async fn await_order(&self, limit: Duration) -> anyhow::Result<Picture> {
        await_that("the addresses of all Services are in order", limit, async || {
            let picture = self.picture().await?;
            let wrong = picture.wrong(Timestamp::now());
            ensure!(wrong.is_empty(), "wrong is: {}", wrong.join("; "));
            Ok(Some(picture))
        })
        .await
    }
}

impl Picture {
    /// Returns each violation as one sentence.
    pub fn wrong(&self, now: Timestamp) -> Vec<String> {
        let mut wrong = self.wrong_claims(now);
        wrong.extend(self.wrong_sharing());
        wrong.extend(self.services.iter().flat_map(|service| self.wrong_with_service(service)));
        wrong.extend(self.pools.iter().flat_map(|pool| self.wrong_with_pool(pool)));
        wrong
    }

    fn wrong_claims(&self, now: Timestamp) -> Vec<String> {
        let by_uid: BTreeMap<_, _> =
            self.services.iter().filter_map(|service| Some((service.uid()?, service))).collect();
        let mut wrong = Vec::new();
        let mut claimed = BTreeSet::new();
        for claim in &self.virtual_ips {
            let address = claim.spec.address;
            if !claimed.insert(address) {
                wrong.push(format!("{address} is claimed twice"));
            }
            if let Some(quarantine) = &claim.spec.quarantine {
                if quarantine.until.0 < now - GRACE {
                    wrong.push(format!("the quarantine of {address} ended at {}", quarantine.until.0));
                }
                if claim.spec.virtual_router.is_some() {
                    wrong.push(format!("{address} is on a virtual router in its quarantine"));
                }
                continue;
            }
            let mut ports = BTreeMap::new();
            for owner in &claim.spec.owners {
                let wanted = |service: &&&Service| is_load_balancer(service) || is_external(service, address);
                let Some(service) = by_uid.get(&owner.uid).filter(wanted) else {
                    wrong.push(format!("{address} is leaked: {owner} ({}) does not want it", owner.uid));
                    continue;
                };
                if !shown(service).contains(&address) && !is_external(service, address) {
                    wrong.push(format!("{owner} owns {address} and does not show it"));
                }
                for port in service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()) {
                    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
                    if let Some(other) = ports.insert((protocol, port.port), owner) {
                        wrong.push(format!("{owner} and {other} have port {} of {address}", port.port));
                    }
                }
            }
        }
        wrong
    }

    /// Services that show one address and do not share. What no pool lists and nobody owns may be a stranger's entry in both.
    fn wrong_sharing(&self) -> Vec<String> {
        let is_owned = |address: IpAddr| self.virtual_ips.iter().any(|claim| claim.spec.address == address);
        let mut by_address: BTreeMap<IpAddr, Vec<&Service>> = BTreeMap::new();
        for service in self.services.iter().filter(|service| is_load_balancer(service)) {
            let ours = shown(service).into_iter().filter(|one| self.is_listed(*one) || is_owned(*one));
            for address in ours {
                by_address.entry(address).or_default().push(service);
            }
        }
        let mut wrong = Vec::new();
        for (address, services) in by_address {
            for (index, one) in services.iter().enumerate() {
                for other in &services[index + 1..] {
                    if let Err(why) = terms(one).fits(&terms(other)) {
                        let [one, other] = [one, other].map(|service| {
                            format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any())
                        });
                        wrong.push(format!("{one} shows {address} as {other} does: {why}"));
                    }
                }
            }
        }
        wrong
    }

    fn wrong_with_service(&self, service: &Service) -> Vec<String> {
        let name = format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any());
        let uid = service.uid().unwrap_or_default();
        let addresses = shown(service);
        let mut wrong = Vec::new();
        if !is_load_balancer(service) {
            if !addresses.is_empty() {
                wrong.push(format!("{name} is no LoadBalancer and shows {addresses:?}"));
            }
            return wrong;
        }
        let holds = |address| {
            let mut claims = self.virtual_ips.iter().filter(|claim| claim.spec.quarantine.is_none());
            claims.any(|claim| {
                claim.spec.address == address && claim.spec.owners.iter().any(|owner| owner.uid == uid)
            })
        };
        wrong.extend(
            addresses
                .iter()
                // What is in no pool may be a stranger's entry.
                .filter(|one| !holds(**one) && self.is_listed(**one))
                .map(|one| format!("{name} shows {one}, not its own")),
        );
        let conditions = service.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let condition = conditions.into_iter().find(|one| one.type_ == CONDITION_ADDRESS_ALLOCATED);
        match condition {
            None => wrong.push(format!("{name} shows {addresses:?} and no condition")),
            Some(one) if one.status == "True" && addresses.is_empty() => {
                wrong.push(format!("{name} shows no address, and {}: {}", one.reason, one.message));
            }
            Some(one) if one.message.is_empty() => {
                wrong.push(format!("{name} is not told why {}", one.reason));
            }
            Some(_) => {}
        }
        wrong
    }

    /// Returns true if some pool has the address.
    pub(crate) fn is_listed(&self, address: IpAddr) -> bool {
        self.pools.iter().any(|pool| addresses_of(pool).contains(address))
    }

    fn wrong_with_pool(&self, pool: &VirtualIPPool) -> Vec<String> {
        let name = pool.name_any();
        let addresses = addresses_of(pool);
        let claims = self.virtual_ips.iter().filter(|claim| addresses.contains(claim.spec.address));
        let (resting, held): (Vec<_>, Vec<_>) = claims.partition(|claim| claim.spec.quarantine.is_some());
        let none = AddressCounts::default();
        let (v4, v6) = pool.status.as_ref().map_or((None, None), |s| (s.ipv4.as_ref(), s.ipv6.as_ref()));
        let mut wrong = Vec::new();
        for (family, counts, v6) in [("IPv4", v4, false), ("IPv6", v6, true)] {
            let counts = counts.unwrap_or(&none);
            let of_family = |claims: &[&VirtualIP]| {
                claims.iter().filter(|claim| claim.spec.address.is_ipv6() == v6).count()
            };
            for (what, said, is) in [
                ("assigned", counts.assigned, of_family(&held)),
                ("quarantined", counts.quarantined, of_family(&resting)),
            ] {
                if usize::try_from(said) != Ok(is) {
                    wrong.push(format!(
                        "pool {name} counts {said} {family} addresses {what}, and there are {is}"
                    ));
                }
            }
        }
        wrong
    }
}

/// The addresses of a pool, without what it excludes.
fn addresses_of(pool: &VirtualIPPool) -> AddressSet {
    let parse = |list: &[String]| -> AddressSet {
        list.iter().filter_map(|text| text.trim().parse::<AddressRange>().ok()).collect()
    };
    let mut addresses = parse(&pool.spec.addresses);
    addresses.subtract(&parse(&pool.spec.exclude));
    addresses
}

/// The addresses in the Service's status.
pub fn shown(service: &Service) -> BTreeSet<IpAddr> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = status.iter().flat_map(|status| status.ingress.iter().flatten());
    entries.filter_map(|entry| entry.ip.as_ref()?.parse().ok()).collect()
}

/// Returns true if the Service names `address` in `spec.externalIPs`.
fn is_external(service: &Service, address: IpAddr) -> bool {
    let named = service.spec.iter().flat_map(|spec| spec.external_ips.iter().flatten());
    named.into_iter().any(|text| text.parse() == Ok(address))
}

/// Returns the terms on which a Service may share an address, by docs/services.md.
pub(crate) fn terms(service: &Service) -> Terms {
    let namespace = service.namespace().unwrap_or_default();
    let spec = service.spec.as_ref();
    let ports = spec.iter().flat_map(|spec| spec.ports.iter().flatten()).filter_map(|port| {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => Protocol::Tcp,
            Some("UDP") => Protocol::Udp,
            Some(_) => Protocol::Sctp,
        };
        Some(Port { protocol, number: u16::try_from(port.port).ok()? })
    });
    // The lab's Services have no selector: nobody knows where their pods are.
    let is_local = spec.is_some_and(|spec| spec.external_traffic_policy.as_deref() == Some("Local"));
    let traffic = if is_local {
        TrafficPolicy::Local { selector: format!("{namespace}/{}", service.name_any()) }
    } else {
        TrafficPolicy::Cluster
    };
    let annotation = |name: &str| service.annotations().get(name).cloned();
    let sharing = annotation(ANNOTATION_SHARING_KEY).map(|key| {
        let with = annotation(ANNOTATION_SHARE_WITH).unwrap_or_default();
        Sharing { key, with: with.split(',').map(|one| one.trim().to_owned()).collect() }
    });
    Terms { ports: ports.collect(), traffic, sharing, ..Terms::alone(namespace) }
}

pub(crate) fn is_load_balancer(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_none()
        && service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
}

#[cfg(test)]
mod tests;
