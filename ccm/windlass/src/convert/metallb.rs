//! MetalLB's objects: IPAddressPools and how they are announced, and the ConfigMap of MetalLB 0.12 and older.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::fields::{self, FieldError, name, origin};
use super::{input, selectors};

/// A pool as MetalLB has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pool {
    /// `IPAddressPool metallb-system/first`, for messages.
    pub(super) origin: String,
    pub(super) name: String,
    /// Labels of the object, which advertisements select it by.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) addresses: Vec<String>,
    pub(super) auto_assign: bool,
    pub(super) avoid_buggy_ips: bool,
    /// `spec.serviceAllocation`.
    pub(super) allocation: Option<Allocation>,
}

/// For which Services a pool is, and in which order pools are searched.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Allocation {
    /// Lower ones first; 0 is last.
    pub(super) priority: i64,
    pub(super) namespaces: Vec<String>,
    pub(super) namespace_selectors: Vec<LabelSelector>,
    pub(super) service_selectors: Vec<LabelSelector>,
}

/// How pools are announced.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Advertisement {
    /// Whether it announces by ARP and NDP.
    pub(super) layer2: bool,
    pub(super) origin: String,
    pub(super) name: String,
    /// The pools it names; with none, and no selectors either, all.
    pub(super) pools: Vec<String>,
    /// Selectors of further pools, by label.
    pub(super) pool_selectors: Vec<LabelSelector>,
    /// The only nodes that announce; with none, all.
    pub(super) node_selectors: Vec<LabelSelector>,
    /// The only Services that are announced; with none, all.
    pub(super) service_selectors: Vec<LabelSelector>,
    /// The only interfaces that announce; with none, all.
    pub(super) interfaces: Vec<String>,
}

impl Advertisement {
    /// Whether it announces the pool.
    pub(super) fn announces(&self, pool: &Pool) -> bool {
        self.is_for_all_pools()
            || self.pools.contains(&pool.name)
            || self.pool_selectors.iter().any(|selector| selectors::matches(selector, &pool.labels))
    }

    /// Whether it says nothing of pools.
    pub(super) const fn is_for_all_pools(&self) -> bool {
        self.pools.is_empty() && self.pool_selectors.is_empty()
    }

    /// Whether every node announces, on every interface.
    pub(super) const fn is_open(&self) -> bool {
        self.node_selectors.is_empty() && self.interfaces.is_empty()
    }
}

/// MetalLB's objects in an input, and what cannot be converted.
#[derive(Debug, Default)]
pub(super) struct MetalLbObjects {
    pub(super) pools: Vec<Pool>,
    pub(super) advertisements: Vec<Advertisement>,
    pub(super) warnings: Vec<String>,
    pub(super) errors: Vec<String>,
}

/// Reads every object in `text`.
pub(super) fn read(text: &str) -> MetalLbObjects {
    let (objects, errors) = input::objects(text);
    let mut read = MetalLbObjects { errors, ..MetalLbObjects::default() };
    for object in &objects {
        read.add(object);
    }
    read
}

impl MetalLbObjects {
    fn add(&mut self, object: &Value) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let origin = origin(object);
        let is_metallb =
            object["apiVersion"].as_str().is_some_and(|version| version.starts_with("metallb.io/"));
        let result = match kind {
            "IPAddressPool" | "AddressPool" if is_metallb => self.pool(object, &origin),
            "L2Advertisement" if is_metallb => self.advertisement(object, &origin, true),
            "BGPAdvertisement" if is_metallb => self.advertisement(object, &origin, false),
            "BGPPeer" | "BFDProfile" | "Community" if is_metallb => {
                self.warnings.push(format!(
                    "{origin}: Windlass has no BGP; it announces by ARP and NDP, so addresses must be in a subnet of \
                     the nodes. Keep MetalLB for addresses that need BGP"
                ));
                Ok(())
            }
            "ConfigMap" => self.config_map(object, &origin),
            "" if object.get("address-pools").is_some() => self.config(object, "the configuration"),
            _ => {
                self.warnings.push(format!("{origin}: no pool and nothing of MetalLB, left out"));
                Ok(())
            }
        };
        if let Err(error) = result {
            self.errors.push(format!("{origin}: {error}; it was left out"));
        }
    }

    fn pool(&mut self, object: &Value, origin: &str) -> Result<(), FieldError> {
        let name = name(object, "metadata.name")?;
        let allocation = fields::at(object, "spec.serviceAllocation")
            .map(|_| -> Result<_, FieldError> {
                let field = |field: &str| format!("spec.serviceAllocation.{field}");
                Ok(Allocation {
                    priority: fields::number(object, &field("priority"))?,
                    namespaces: fields::texts(object, &field("namespaces"))?,
                    namespace_selectors: fields::label_selectors(object, &field("namespaceSelectors"))?,
                    service_selectors: fields::label_selectors(object, &field("serviceSelectors"))?,
                })
            })
            .transpose()?;
        if fields::text(object, "spec.protocol")? == Some("bgp") {
            self.warn_of_bgp(origin, "spec.protocol");
        }
        self.pools.push(Pool {
            origin: origin.to_owned(),
            name,
            labels: fields::labels(object, "metadata.labels")?,
            addresses: fields::texts(object, "spec.addresses")?,
            auto_assign: fields::boolean(object, "spec.autoAssign", true)?,
            avoid_buggy_ips: fields::boolean(object, "spec.avoidBuggyIPs", false)?,
            allocation,
        });
        Ok(())
    }

    fn advertisement(&mut self, object: &Value, origin: &str, layer2: bool) -> Result<(), FieldError> {
        // A selector without conditions selects all, and so does an empty list.
        let selectors = |field: &str| -> Result<_, FieldError> {
            let all = fields::label_selectors(object, &format!("spec.{field}"))?;
            Ok(if all.iter().any(selectors::selects_all) { Vec::new() } else { all })
        };
        let mut advertisement = Advertisement {
            layer2,
            origin: origin.to_owned(),
            name: fields::text(object, "metadata.name")?.unwrap_or_default().to_owned(),
            pools: fields::texts(object, "spec.ipAddressPools")?,
            pool_selectors: fields::label_selectors(object, "spec.ipAddressPoolSelectors")?,
            node_selectors: Vec::new(),
            service_selectors: Vec::new(),
            interfaces: Vec::new(),
        };
        if layer2 {
            advertisement.node_selectors = selectors("nodeSelectors")?;
            advertisement.service_selectors = selectors("serviceSelectors")?;
            advertisement.interfaces = fields::texts(object, "spec.interfaces")?;
        } else {
            self.warn_of_bgp(origin, "it");
        }
        self.advertisements.push(advertisement);
        Ok(())
    }

    fn config_map(&mut self, object: &Value, origin: &str) -> Result<(), FieldError> {
        let Some(config) = object.get("data").and_then(|data| data.get("config")) else {
            self.warnings.push(format!("{origin}: no configuration of MetalLB, left out"));
            return Ok(());
        };
        let text = config.as_str().unwrap_or_default();
        let (inner, errors) = input::objects(text);
        self.errors.extend(errors.into_iter().map(|error| format!("{origin}: data.config: {error}")));
        if inner.iter().all(|config| config.get("address-pools").is_none()) {
            self.warnings.push(format!("{origin}: data.config has no address-pools, left out"));
        }
        inner.iter().try_for_each(|config| self.config(config, origin))
    }

    /// The configuration file of MetalLB 0.12 and older.
    fn config(&mut self, config: &Value, origin: &str) -> Result<(), FieldError> {
        if !fields::list(config, "peers")?.is_empty() {
            self.warn_of_bgp(origin, "peers");
        }
        for (index, pool) in fields::list(config, "address-pools")?.iter().enumerate() {
            let origin = format!("{origin}: address-pools[{index}]");
            match Self::config_pool(pool, &origin) {
                Ok((read, bgp)) => {
                    self.pools.push(read);
                    if bgp {
                        self.warn_of_bgp(&origin, "protocol");
                    }
                }
                Err(error) => self.errors.push(format!("{origin}: {error}; it was left out")),
            }
        }
        Ok(())
    }

    fn config_pool(pool: &Value, origin: &str) -> Result<(Pool, bool), FieldError> {
        let read = Pool {
            origin: origin.to_owned(),
            name: name(pool, "name")?,
            labels: BTreeMap::new(),
            addresses: fields::texts(pool, "addresses")?,
            auto_assign: fields::boolean(pool, "auto-assign", true)?,
            avoid_buggy_ips: fields::boolean(pool, "avoid-buggy-ips", false)?,
            allocation: None,
        };
        Ok((read, fields::text(pool, "protocol")? == Some("bgp")))
    }

    fn warn_of_bgp(&mut self, origin: &str, field: &str) {
        self.warnings.push(format!(
            "{origin}: {field} announces by BGP, which Windlass has not: its addresses are announced by ARP and NDP and \
             must be in a subnet of the nodes. Keep MetalLB for those that are not"
        ));
    }
}
