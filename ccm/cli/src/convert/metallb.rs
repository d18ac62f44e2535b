//! MetalLB's objects: IPAddressPools and how they are announced, the ConfigMap of MetalLB 0.12 and older, and the Helm values that
//! have that inline.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::fields::{self, FieldError, Object, name};
use super::objects::{Input, Outcome};
use super::services::{Becomes, Program};
use super::write::Place;
use super::{input, selectors};

const ADDRESSES: Becomes = Becomes::IsRead("windlass.dev/addresses");
const POOL: Becomes = Becomes::IsRead("windlass.dev/pool");
const SHARING: Becomes = Becomes::IsRead("windlass.dev/sharing-key");

pub(super) const PROGRAM: Program = Program {
    name: "MetalLB",
    prefixes: &["metallb.io/", "metallb.universe.tf/"],
    sharing: &["metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"],
    annotations: &[
        ("metallb.io/loadBalancerIPs", ADDRESSES),
        ("metallb.universe.tf/loadBalancerIPs", ADDRESSES),
        ("metallb.io/address-pool", POOL),
        ("metallb.universe.tf/address-pool", POOL),
        ("metallb.io/allow-shared-ip", SHARING),
        ("metallb.universe.tf/allow-shared-ip", SHARING),
        ("metallb.io/ip-allocated-from-pool", Becomes::Record),
        ("metallb.universe.tf/ip-allocated-from-pool", Becomes::Record),
    ],
    addresses: &["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"],
    classes: &["metallb", "metallb.io/metallb", "metallb.universe.tf/metallb"],
};

/// Fields without a counterpart, and the nearest thing to do.
const UNCONVERTED: &[(&str, &str)] = &[
    ("spec.bgpAdvertisements", BGP),
    ("bgp-advertisements", BGP),
    ("peers", BGP),
    ("bgp-communities", BGP),
    ("bfd-profiles", BGP),
];
const BGP: &str =
    "Windlass does not speak BGP. Keep MetalLB for addresses that are in no subnet of the nodes";

/// A pool as MetalLB has it.
pub(super) struct Pool<'a> {
    pub(super) place: Place<'a>,
    pub(super) name: String,
    /// Labels of the object, which advertisements select it by.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) addresses: Vec<String>,
    pub(super) auto_assign: bool,
    pub(super) avoid_buggy_ips: bool,
    /// The protocol that the pool itself names, as pools of 0.12 and of `AddressPool` do.
    pub(super) protocol: Option<Protocol>,
    /// `spec.serviceAllocation`.
    pub(super) allocation: Option<Allocation>,
}

/// Protocol by which addresses are announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// By ARP and NDP.
    Layer2,
    Bgp,
}

impl Protocol {
    fn read(object: &Object<'_>, field: &str) -> Result<Option<Self>, FieldError> {
        Ok(match fields::text(object, field)? {
            Some("layer2") => Some(Self::Layer2),
            Some("bgp") => Some(Self::Bgp),
            Some(_) | None => None,
        })
    }
}

/// Services that a pool is for, and its place in the order in which pools are searched.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Allocation {
    /// Lower ones first; 0 is last.
    pub(super) priority: i64,
    pub(super) namespaces: Vec<String>,
    pub(super) namespace_selectors: Vec<LabelSelector>,
    pub(super) service_selectors: Vec<LabelSelector>,
}

/// Advertisement of MetalLB: the pools that it announces, and the nodes and interfaces that announce them.
pub(super) struct Advertisement<'a> {
    pub(super) protocol: Protocol,
    pub(super) place: Place<'a>,
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

impl Advertisement<'_> {
    /// Returns true if it announces the pool.
    pub(super) fn announces(&self, pool: &Pool<'_>) -> bool {
        self.is_for_all_pools()
            || self.pools.contains(&pool.name)
            || self.pool_selectors.iter().any(|selector| selectors::matches(selector, &pool.labels))
    }

    /// Returns true if it neither names nor selects pools.
    pub(super) const fn is_for_all_pools(&self) -> bool {
        self.pools.is_empty() && self.pool_selectors.is_empty()
    }

    /// Returns true if every node announces, on every interface.
    pub(super) const fn is_open(&self) -> bool {
        self.node_selectors.is_empty() && self.interfaces.is_empty()
    }
}

/// MetalLB's objects in an input.
#[derive(Default)]
pub(super) struct MetalLbObjects<'a> {
    pub(super) pools: Vec<Pool<'a>>,
    pub(super) advertisements: Vec<Advertisement<'a>>,
    /// Classes of load balancers that its Helm values name.
    pub(super) classes: Vec<String>,
}

impl<'a> MetalLbObjects<'a> {
    /// Reads every object of an input.
    pub(super) fn read(input: &'a Input) -> Self {
        let mut objects = Self::default();
        input.each(UNCONVERTED, |object, place| objects.add(object, place));
        objects
    }

    fn add(&mut self, object: &Object<'_>, place: &Place<'a>) -> Result<Outcome, FieldError> {
        let is_metallb = object.is_of("metallb.io");
        match object.kind() {
            "IPAddressPool" | "AddressPool" if is_metallb => self.pool(object, place)?,
            "L2Advertisement" if is_metallb => self.advertisement(object, place, Protocol::Layer2)?,
            "BGPAdvertisement" if is_metallb => {
                // Named as a whole: the pools that it is for have an effect, and are to be named, too.
                place.unconverted(object, BGP);
                self.advertisement(object, place, Protocol::Bgp)?;
                return Ok(Outcome::Reported);
            }
            "BGPPeer" | "BFDProfile" | "Community" if is_metallb => {
                place.unconverted(object, BGP);
                return Ok(Outcome::Reported);
            }
            "ConfigMap" if look(object, "data.config") => {
                let text = fields::text(object, "data.config")?.unwrap_or_default();
                self.config_text(text, &place.part("data.config"))?;
            }
            "HelmRelease" => return self.values_at(object, "spec.values", place),
            "HelmChart" | "HelmChartConfig" => return self.values_at(object, "spec.valuesContent", place),
            "Application" => {
                self.values_at(object, "spec.source.helm.valuesObject", place)?;
                return self.values_at(object, "spec.source.helm.values", place);
            }
            "" if look(object, "address-pools") => {
                self.config(object, &place.at("the configuration"))?;
                return Ok(Outcome::Reported);
            }
            "" if ["configInline", "metallb", "loadBalancerClass"]
                .iter()
                .any(|field| look(object, field)) =>
            {
                return self.values(object, &place.at("the Helm values"));
            }
            _ => return Ok(Outcome::Foreign),
        }
        Ok(Outcome::Read)
    }

    fn pool(&mut self, object: &Object<'_>, place: &Place<'a>) -> Result<(), FieldError> {
        let name = name(object, "metadata.name")?;
        let allocation = object
            .part("spec.serviceAllocation")
            .map(|part| -> Result<_, FieldError> {
                Ok(Allocation {
                    priority: fields::number(&part, "priority")?,
                    namespaces: fields::texts(&part, "namespaces")?,
                    namespace_selectors: fields::label_selectors(&part, "namespaceSelectors")?,
                    service_selectors: fields::label_selectors(&part, "serviceSelectors")?,
                })
            })
            .transpose()?;
        self.pools.push(Pool {
            place: place.clone(),
            name,
            labels: fields::labels(object, "metadata.labels")?,
            addresses: fields::texts(object, "spec.addresses")?,
            auto_assign: fields::boolean(object, "spec.autoAssign", true)?,
            avoid_buggy_ips: fields::boolean(object, "spec.avoidBuggyIPs", false)?,
            protocol: Protocol::read(object, "spec.protocol")?,
            allocation,
        });
        Ok(())
    }

    fn advertisement(
        &mut self,
        object: &Object<'_>,
        place: &Place<'a>,
        protocol: Protocol,
    ) -> Result<(), FieldError> {
        // A selector without conditions selects all, and so does an empty list.
        let selectors = |field: &str| -> Result<_, FieldError> {
            let all = fields::label_selectors(object, &format!("spec.{field}"))?;
            Ok(if all.iter().any(selectors::selects_all) { Vec::new() } else { all })
        };
        let mut advertisement = Advertisement {
            protocol,
            place: place.clone(),
            name: fields::text(object, "metadata.name")?.unwrap_or_default().to_owned(),
            pools: fields::texts(object, "spec.ipAddressPools")?,
            pool_selectors: fields::label_selectors(object, "spec.ipAddressPoolSelectors")?,
            node_selectors: Vec::new(),
            service_selectors: Vec::new(),
            interfaces: Vec::new(),
        };
        if protocol == Protocol::Layer2 {
            advertisement.node_selectors = selectors("nodeSelectors")?;
            advertisement.service_selectors = selectors("serviceSelectors")?;
            advertisement.interfaces = fields::texts(object, "spec.interfaces")?;
        }
        self.advertisements.push(advertisement);
        Ok(())
    }

    fn config_text(&mut self, text: &str, place: &Place<'a>) -> Result<(), FieldError> {
        let (inner, errors) = input::objects(text);
        for error in errors {
            place.refuse(error);
        }
        inner.iter().try_for_each(|config| self.config(&Object::new(config), place))
    }

    /// The configuration file of MetalLB 0.12 and older.
    fn config(&mut self, config: &Object<'_>, place: &Place<'a>) -> Result<(), FieldError> {
        for pool in config.parts("address-pools")? {
            let place = place.part(&pool.path(""));
            match config_pool(&pool, &place) {
                Ok(read) => self.pools.push(read),
                Err(error) => {
                    pool.mark("");
                    place.refuse(error);
                }
            }
        }
        place.unread(config, UNCONVERTED);
        Ok(())
    }

    /// Helm values in an object that installs the chart, as YAML or in a text.
    fn values_at(
        &mut self,
        object: &Object<'_>,
        field: &str,
        place: &Place<'a>,
    ) -> Result<Outcome, FieldError> {
        let Some(values) = fields::at(object, field) else { return Ok(Outcome::Reported) };
        let place = place.part(field);
        let Some(text) = values.as_str() else { return self.values(&Object::new(values), &place) };
        let (inner, errors) = input::objects(text);
        for error in errors {
            place.refuse(error);
        }
        for values in &inner {
            self.values(&Object::new(values), &place)?;
        }
        Ok(Outcome::Reported)
    }

    /// Values of MetalLB's chart, or of one that has it as a part.
    fn values(&mut self, values: &Object<'_>, place: &Place<'a>) -> Result<Outcome, FieldError> {
        if let Some(metallb) = values.part("metallb") {
            let metallb = Object::new(metallb.value());
            values.mark("metallb");
            self.values(&metallb, &place.at(format!("{}.metallb", place.origin())))?;
        }
        self.classes.extend(fields::text(values, "loadBalancerClass")?.map(str::to_owned));
        let inline = place.at(format!("{}.configInline", place.origin()));
        match fields::at(values, "configInline") {
            Some(Value::String(text)) => self.config_text(text, &inline)?,
            Some(config) => self.config(&Object::new(config), &inline)?,
            None => {}
        }
        let others: Vec<String> = values.unread(&[]).into_iter().map(|(path, _)| path).collect();
        if !others.is_empty() {
            place.warn(format!(
                "the values {} configure MetalLB's own installation and are not converted: check whether manifests/ or the chart \
                 of Windlass needs the same settings",
                others.join(", ")
            ));
        }
        Ok(Outcome::Reported)
    }
}

fn config_pool<'a>(pool: &Object<'_>, place: &Place<'a>) -> Result<Pool<'a>, FieldError> {
    Ok(Pool {
        place: place.clone(),
        name: name(pool, "name")?,
        labels: BTreeMap::new(),
        addresses: fields::texts(pool, "addresses")?,
        auto_assign: fields::boolean(pool, "auto-assign", true)?,
        avoid_buggy_ips: fields::boolean(pool, "avoid-buggy-ips", false)?,
        protocol: Protocol::read(pool, "protocol")?,
        allocation: None,
    })
}

/// True if the object has the field; it does not count as read.
fn look(object: &Object<'_>, field: &str) -> bool {
    field.split('.').try_fold(object.value(), |value, name| value.get(name)).is_some()
}
