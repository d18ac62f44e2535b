//! The Services that take part.

use std::fmt;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Namespace and name of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the key of `service`.
    pub fn of(service: &Service) -> Self {
        Self { namespace: service.namespace().unwrap_or_default(), name: service.name_any() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Pool that is never edited.
pub(super) const QUIET: &str = "quiet";
/// Pool that is never edited, and that is made when Services show addresses of it already.
pub(super) const LATE: &str = "late";

/// Namespaces other than `default` that have Services.
pub(super) const TENANTS: [&str; 2] = ["u", "v"];

/// A Service whose spec and annotations are never edited; its status, its claims and the pools are.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    namespace: &'static str,
    name: &'static str,
    port: u16,
    both: bool,
    pool: Option<&'static str>,
    /// Its sharing key and the namespaces that it shares with.
    shares: Option<(&'static str, &'static str)>,
    /// The address that a predecessor of Windlass gave it.
    pub(super) inherits: Option<&'static str>,
    /// It is deleted without its finalizer and made again under its name.
    pub(super) is_remade: bool,
}

const ALONE: Steady = Steady {
    namespace: "default",
    name: "",
    port: 80,
    both: false,
    pool: None,
    shares: None,
    inherits: None,
    is_remade: false,
};

const HEIR: Steady = Steady { pool: Some(LATE), ..ALONE };
const HEIRS: Option<(&str, &str)> = Some(("heirs", "default"));

/// All of them, in the order in which they are made.
pub const STEADY: [Steady; 15] = [
    Steady { name: "steady-0", ..ALONE },
    Steady { name: "steady-1", ..ALONE },
    Steady { name: "steady-2", both: true, ..ALONE },
    Steady { name: "steady-3", both: true, ..ALONE },
    Steady { name: "named-a", pool: Some("pool-a"), ..ALONE },
    Steady { name: "named-b", pool: Some("pool-b"), both: true, ..ALONE },
    Steady { name: "named-c", pool: Some("pool-c"), ..ALONE },
    Steady { name: "shared-0", port: 80, shares: Some(("k", "u")), ..ALONE },
    Steady { name: "shared-1", port: 81, shares: Some(("k", "u")), ..ALONE },
    Steady { namespace: "u", name: "shared-2", port: 82, shares: Some(("k", "default")), ..ALONE },
    Steady { name: "remade-0", pool: Some(QUIET), is_remade: true, ..ALONE },
    Steady { name: "remade-1", pool: Some(QUIET), is_remade: true, ..ALONE },
    Steady { name: "heir-0", shares: HEIRS, inherits: Some("192.0.2.190"), ..HEIR },
    Steady { name: "heir-1", port: 81, shares: HEIRS, inherits: Some("192.0.2.190"), ..HEIR },
    Steady { name: "heir-2", inherits: Some("192.0.2.195"), ..HEIR },
];

/// Services that come, go and change.
const LOOSE: u64 = 12;

impl Steady {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        Key::new(self.namespace, self.name)
    }

    /// The object.
    pub(super) fn object(&self) -> Value {
        let mut object = object(&self.key(), self.both, self.port);
        let mut annotations = serde_json::Map::new();
        if let Some(pool) = self.pool {
            annotations.insert(windlass_api::ANNOTATION_POOL.into(), json!(pool));
        }
        if let Some((key, with)) = self.shares {
            annotations.insert(windlass_api::ANNOTATION_SHARING_KEY.into(), json!(key));
            annotations.insert(windlass_api::ANNOTATION_SHARE_WITH.into(), json!(with));
        }
        object["metadata"]["annotations"] = Value::Object(annotations);
        object
    }
}

/// One of those that come, go and change.
pub(super) fn loose(random: &mut super::Random) -> Key {
    let number = random.below(LOOSE);
    let namespace = match number % 4 {
        2 => TENANTS[0],
        3 => TENANTS[1],
        _ => "default",
    };
    Key::new(namespace, &format!("loose-{number}"))
}

/// A Service of type LoadBalancer.
pub(super) fn object(key: &Key, both: bool, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {
            "type": "LoadBalancer", "ports": [{"port": port}], "allocateLoadBalancerNodePorts": false,
            "ipFamilyPolicy": if both { "PreferDualStack" } else { "SingleStack" },
        },
    })
}
