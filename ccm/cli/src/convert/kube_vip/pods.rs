//! kube-vip's own pods: a DaemonSet, or the static pod of a control-plane node. Their environment sets how Services are announced, and
//! which address of the API server they hold; that becomes settings of `windlass vip`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::fields::origin;
use super::super::write::{Place, Writer};

/// Port of the API server, if none is named.
const PORT: u16 = 6443;

/// Variables of the control plane's address alone.
const OF_CONTROL_PLANE: [&str; 6] =
    ["address", "vip_address", "port", "lb_enable", "lb_port", "lb_fwdmethod"];
/// Variables of Services alone.
const OF_SERVICES: [&str; 4] = ["svc_enable", "vip_servicesinterface", "lb_class_only", "lb_class_name"];
/// Variables of both, and switches.
const READ: [&str; 4] = ["cp_enable", "vip_interface", "vip_arp", "bgp_enable"];

/// Beginnings of the other variables, and why they are not converted.
const UNCONVERTED: &[(&str, &str)] = &[
    (
        "bgp_ mpbgp_ zebra_",
        "only `windlass vip` speaks BGP: for the API server's address write its settings by hand (docs/bgp.md). Keep kube-vip for \
         Services' addresses that are in no subnet of the nodes",
    ),
    (
        "vip_routingtable vip_routingprotocol vip_cleanroutingtable vip_wireguard",
        "Windlass announces by ARP and NDP and writes no routes. Keep kube-vip for addresses that are in no subnet of the nodes",
    ),
    (
        "vip_leaderelection vip_lease vip_renewdeadline vip_retryperiod svc_election svc_lease vip_singlenode vip_startleader vip_preserve",
        "the nodes elect by VRRP, without leases of the API server. Set the time between adverts instead: advertIntervalMs of \
         `windlass vip`, spec.vrrp of an Announcement",
    ),
    (
        "vip_subnet vip_cidr vip_interfaceloglobal",
        "Windlass adds the address to no interface. With `bind: true`, `windlass vip` adds it, as /32 or /128",
    ),
    (
        "vip_ddns dns_mode cp_detect",
        "Windlass does not find addresses by DHCP or DNS. Write the address into the settings",
    ),
    ("egress_", "Windlass leaves the source address of pods to the CNI. Keep kube-vip for it"),
    (
        "vip_arpRate",
        "Windlass sends gratuitous ARP at each takeover at its own intervals. No action is needed",
    ),
    (
        "enable_service_security",
        "the guard always accepts only ports of the address' Services (docs/dev/guard.md). No action is needed",
    ),
    (
        "lb_class_legacy_handling",
        "Windlass serves only its own class. Create Services of another class again",
    ),
    ("svc_namespace", "Windlass serves Services of all namespaces. Restrict its pools with spec.namespaces"),
    ("enable_node_labeling", "no label names the node that announces. `kubectl get virtualips` shows it"),
    (
        "mirror_dest_interface",
        "Windlass copies no traffic to another interface. Use a mirror port of the switch instead",
    ),
    ("enable_upnp", "Windlass opens no ports of a router by UPnP. Open them on the router"),
    (
        "backend_health_check_interval",
        "`windlass vip` checks each backend at the interval balance.intervalMs. Set that field",
    ),
    (
        "cp_namespace kubernetes_addr vip_nodename vip_loglevel prometheus_server health_check_port \
         k8s_config_file config_file annotation disable_service_updates enable_endpoints iptables_backend loadbalancer_",
        "it configures kube-vip's own operation. See docs/flags.md for the flags of Windlass",
    ),
];

/// The settings of a container of kube-vip.
pub(super) struct Settings<'a> {
    pub(super) place: Place<'a>,
    environment: BTreeMap<&'a str, &'a str>,
    /// Arguments but the role.
    arguments: Vec<&'a str>,
}

/// Reads a pod, or an object with a template of one; none if it does not run kube-vip.
pub(super) fn read<'a>(object: &'a Value, writer: &'a Writer) -> Vec<Settings<'a>> {
    let spec = match object["kind"].as_str() {
        Some("Pod") => &object["spec"],
        Some("DaemonSet" | "Deployment") => &object["spec"]["template"]["spec"],
        Some(_) | None => return Vec::new(),
    };
    let is_kube_vip = |container: &&Value| {
        let image = container["image"].as_str().unwrap_or_default();
        image.contains("kube-vip") && !image.contains("cloud-provider")
    };
    spec["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_kube_vip)
        .map(|container| container_settings(container, writer.at(origin(object))))
        .collect()
}

fn container_settings<'a>(container: &'a Value, place: Place<'a>) -> Settings<'a> {
    let variables = container["env"].as_array().into_iter().flatten();
    let variable = |variable: &'a Value| {
        Some((variable["name"].as_str()?, variable["value"].as_str().unwrap_or_default()))
    };
    let arguments = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Settings {
        place,
        environment: variables.filter_map(variable).collect(),
        arguments: arguments.filter(|argument| !matches!(*argument, "manager" | "service")).collect(),
    }
}

impl<'a> Settings<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).copied().filter(|value| !value.is_empty())
    }

    fn is(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true" || value == "1")
    }

    fn address(&self) -> Option<&'a str> {
        self.get("address").or_else(|| self.get("vip_address"))
    }

    /// True if it holds an address of the control plane.
    fn holds_control_plane(&self) -> bool {
        self.address().is_some() && (self.is("cp_enable") || self.get("cp_enable").is_none())
    }

    /// True if BGP announces, and ARP does not.
    fn is_bgp_alone(&self) -> bool {
        self.is("bgp_enable") && !self.is("vip_arp")
    }

    /// Reports the variables that are not read, and that `others` are converted apart.
    fn report(&self, others: &[&str], how: &str) {
        if self.get("vip_arp").is_some() && !self.is("vip_arp") && !self.is("bgp_enable") {
            self.place.warn(
                "vip_arp (\"false\") is not converted: kube-vip announces nothing by ARP, and Windlass does. Make sure that its \
                 addresses are in the subnet of the nodes",
            );
        }
        let is_unread = |name: &&&str| {
            !READ.contains(name) && !OF_CONTROL_PLANE.contains(name) && !OF_SERVICES.contains(name)
        };
        let mut reported: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for name in self.environment.keys().filter(is_unread) {
            let known = UNCONVERTED
                .iter()
                .find(|(prefixes, _)| prefixes.split(' ').any(|prefix| name.starts_with(prefix)));
            let said = known.map_or(
                "Windlass does not know the variable. Look up its effect in kube-vip's documentation",
                |(_, said)| said,
            );
            reported.entry(said).or_default().push(format!("{name} ({:?})", self.environment[name]));
        }
        for argument in &self.arguments {
            let said =
                "the converter reads only environment variables. Write it as a variable and convert again";
            reported.entry(said).or_default().push(format!("argument {argument:?}"));
        }
        for (said, names) in reported {
            self.place.warn(format!("{} not converted: {said}", names.join(", ")));
        }
        let others: Vec<String> =
            others.iter().filter_map(|name| Some(format!("{name} ({:?})", self.get(name)?))).collect();
        if !others.is_empty() {
            self.place.note(format!(
                "{} not converted here: run the command {how} --vip to convert them",
                others.join(", ")
            ));
        }
    }
}

/// Settings by which kube-vip's pods announce Services.
#[derive(Default)]
pub(super) struct Announcing<'a> {
    pub(super) interface: Option<&'a str>,
    /// True if only BGP announces.
    pub(super) by_bgp: bool,
    /// Classes of load balancers that they serve.
    pub(super) classes: Vec<String>,
}

/// Reads how Services are announced, and keeps addresses of the control plane out of all pools.
pub(super) fn announcing<'a>(pods: &[Settings<'a>], writer: &Writer) -> Announcing<'a> {
    let mut announcing = Announcing::default();
    for pod in pods {
        pod.report(&OF_CONTROL_PLANE, "with");
        if pod.holds_control_plane()
            && let Some(address) = pod.address().and_then(|address| address.parse::<IpAddr>().ok())
        {
            writer.reserve(address, "the address of the API server");
        }
        if pod.get("svc_enable").is_some() && !pod.is("svc_enable") {
            pod.place.note(
                "svc_enable (\"false\"): this pod announces no Services, so its settings do not apply to them",
            );
            continue;
        }
        let interface = pod.get("vip_servicesinterface").or_else(|| pod.get("vip_interface"));
        announcing.interface = announcing.interface.or(interface.filter(|name| *name != "lo"));
        announcing.by_bgp |= pod.is_bgp_alone();
        if pod.is("bgp_enable") && !pod.is_bgp_alone() {
            pod.place.warn(
                "bgp_enable (\"true\") is not converted: Windlass does not speak BGP. Clients outside of the subnet need a route to it",
            );
        }
        if let Some(class) = pod.get("lb_class_name") {
            announcing.classes.push(class.to_owned());
            pod.place
                .note(format!("lb_class_name: the converter also checks Services of the class {class:?}"));
        }
        if pod.is("lb_class_only") {
            pod.place.warn(
                "lb_class_only (\"true\") makes kube-vip ignore Services without a class; Windlass serves them. Run the \
                 controller with --classless-services=false to ignore them, too",
            );
        }
    }
    announcing
}

/// Prints the settings of `windlass vip` for the addresses of the control plane.
pub(super) fn convert(pods: &[Settings<'_>], writer: &Writer) {
    let mut vips: Vec<Value> = Vec::new();
    for pod in pods {
        if !pod.holds_control_plane() {
            pod.place.note("it holds no address of the control plane (cp_enable and address): left out");
            continue;
        }
        pod.report(&OF_SERVICES, "without");
        vips.extend(vip(pod).filter(|vip| !vips.contains(vip)));
    }
    writer.vips(&vips);
}

fn vip(pod: &Settings<'_>) -> Option<Value> {
    let text = pod.address()?;
    let Ok(address) = text.parse::<IpAddr>() else {
        pod.place.refuse(format!(
            "address {text:?} is not an IP address: write the address that the name resolves to"
        ));
        return None;
    };
    let port = match pod.get("port").map(str::parse::<u16>) {
        None => PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => {
            pod.place.refuse("port is not 1 to 65535: correct it");
            return None;
        }
    };
    if pod.is("bgp_enable") {
        pod.place.warn(
            "bgp_enable (\"true\") is not converted: `windlass vip` announces by ARP and NDP. The address has to be in the subnet of the \
             control-plane nodes",
        );
    }
    if pod.get("address").is_some() && pod.get("vip_address").is_some() {
        pod.place.note("vip_address is the old name of address; the converter uses address");
    }
    balance(pod, port);
    // kube-vip keeps its lease by the node's own API server, so a node whose server fails loses the address.
    let check = json!({ "https": { "url": format!("https://127.0.0.1:{port}/readyz") } });
    let mut vip = json!({ "address": address, "ports": [port], "checks": [check] });
    if let Some(interface) = pod.get("vip_interface").filter(|name| *name != "lo") {
        vip["interface"] = json!(interface);
    }
    Some(vip)
}

/// Reports that kube-vip balances.
fn balance(pod: &Settings<'_>, port: u16) {
    let set = ["lb_enable", "lb_port", "lb_fwdmethod"];
    let set: Vec<String> =
        set.iter().filter_map(|name| Some(format!("{name} ({:?})", pod.get(name)?))).collect();
    if pod.is("lb_enable") {
        pod.place.warn(format!(
            "{} not converted: kube-vip finds the API servers by their nodes, and `windlass vip` reads them from its settings. \
             Name them in balance.backends to balance over all, for example 192.0.2.11:{port} (docs/dev/balancing.md)",
            set.join(", ")
        ));
    } else if !set.is_empty() {
        pod.place.note(format!("{} without effect, as lb_enable is not \"true\"", set.join(", ")));
    }
}
