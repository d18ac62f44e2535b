use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::adverts::Advert;
use super::host::{MarkUser, Ruleset, Settings};
use super::survey::Workload;
use super::*;
use crate::inspect::details::KubeProxy;
use crate::inspect::scene::{healthy, lease, network, node, now, object, service};

/// Nothing of others, and Windlass' definitions.
fn surveyed() -> Survey {
    let definitions = windlass_api::all_crds().into_iter().map(|it| it.spec.names.plural).collect();
    Survey { definitions: Some(definitions), ..Survey::default() }
}

/// A node that a full cloud-controller-manager has initialised.
fn initialised(name: &str) -> Value {
    let mut node = node(name);
    node["spec"] = json!({ "providerID": format!("windlass://{name}") });
    node
}

fn cluster() -> Snapshot {
    let mut snapshot = healthy();
    snapshot.nodes.objects = ["n1", "n2", "n3"].map(|name| object(initialised(name))).into();
    for network in &mut snapshot.networks.objects {
        env!("CARGO_PKG_VERSION").clone_into(&mut network.spec.agent_version);
    }
    snapshot
}

fn workload(name: &str, container: &Value) -> Workload {
    let object = json!({
        "metadata": { "name": name, "namespace": "system", "labels": { "app": name } },
        "spec": { "template": { "spec": { "containers": [container] } } },
    });
    Workload::of("DaemonSet", &object)
}

fn settings(conf: &str) -> KubeProxy {
    KubeProxy::of(&object(json!({ "data": { "config.conf": conf } }))).unwrap()
}

fn told(snapshot: &Snapshot, survey: &Survey) -> Vec<(Severity, String)> {
    let report = Report::of(Some(snapshot), survey, None, None, now());
    assert!(report.findings.iter().all(|it| !it.message.is_empty() && !it.remedy.is_empty()), "{report:?}");
    report.findings.into_iter().map(|it| (it.severity, it.reason)).collect()
}

#[test]
fn where_nothing_is_wrong_nothing_is_found() {
    let report = Report::of(Some(&cluster()), &surveyed(), None, None, now());
    assert_eq!(report.findings, []);
    assert_eq!((report.is_installed, report.is_incomplete), (Some(true), false));
    assert_eq!(report.exit_code(), ExitCode::SUCCESS);
    let text = report.text(false);
    assert!(text.contains("Nothing is wrong.") && text.contains("3 of 3 nodes have reported"), "{text}");
}

/// A change to a cluster in which nothing is wrong.
type Change = fn(&mut Snapshot, &mut Survey);

#[test]
fn what_is_wrong_in_a_cluster_is_found_with_a_remedy() {
    use Severity::{Error, Warning};
    let rows: &[(&str, Change, Severity, &str)] = &[
        (
            "a definition is missing",
            |_, survey| drop(survey.definitions.as_mut().unwrap().pop()),
            Error,
            "DefinitionMissing",
        ),
        (
            "MetalLB",
            |_, it| {
                it.workloads.push(workload("speaker", &json!({ "image": "quay.io/metallb/speaker:v0.15" })));
            },
            Warning,
            "Rival",
        ),
        (
            "kube-vip's Services",
            |_, it| {
                let env = json!([{ "name": "svc_enable", "value": "true" }]);
                it.workloads
                    .push(workload("kv", &json!({ "image": "ghcr.io/kube-vip/kube-vip:v1", "env": env })));
            },
            Warning,
            "Rival",
        ),
        (
            "ServiceLB",
            |_, it| it.workloads.push(workload("svclb-web", &json!({ "image": "rancher/klipper-lb:v0.4" }))),
            Warning,
            "Rival",
        ),
        (
            "OpenELB",
            |_, it| it.workloads.push(workload("m", &json!({ "image": "kubesphere/openelb-controller" }))),
            Warning,
            "Rival",
        ),
        ("PureLB", |_, it| it.telltales.push("servicegroups"), Warning, "Rival"),
        ("Cilium", |_, it| it.telltales.push("ciliumloadbalancerippools"), Warning, "Rival"),
        (
            "another cloud-controller-manager",
            |_, it| {
                it.workloads
                    .push(workload("ccm", &json!({ "command": ["/bin/aws-cloud-controller-manager"] })));
            },
            Warning,
            "OtherCloudController",
        ),
        (
            "IPVS, not strict",
            |_, it| it.kube_proxy = Some(settings("mode: ipvs\nipvs: {strictARP: false}")),
            Error,
            "StrictARP",
        ),
        (
            "IPVS, strict",
            |_, it| it.kube_proxy = Some(settings("mode: ipvs\nipvs: {strictARP: true}")),
            Warning,
            "IPVS",
        ),
        (
            "a kubelet without --cloud-provider=external",
            |it, _| it.nodes.objects[0] = object(node("n1")),
            Warning,
            "NoProviderID",
        ),
        (
            "a node that waits although a controller leads",
            |it, _| {
                let mut waiting = initialised("n1");
                waiting["spec"]["taints"] = json!([{ "key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule" }]);
                it.nodes.objects[0] = object(waiting);
            },
            Error,
            "Uninitialized",
        ),
        (
            "a Service of a class that nobody serves",
            |it, _| {
                let mut waiting = service("b", "", "", "", "");
                waiting["status"] = json!({});
                waiting["spec"]["loadBalancerClass"] = json!("example.org/gone");
                it.services.objects.push(object(waiting));
            },
            Warning,
            "ClassNotServed",
        ),
        (
            "agents of another version than this program",
            |it, _| {
                it.networks
                    .objects
                    .iter_mut()
                    .for_each(|one| "9.9.9".clone_into(&mut one.spec.agent_version));
            },
            Warning,
            "OtherVersion",
        ),
        (
            "a controller of another image than the agents",
            |it, _| {
                for (component, tag) in [("controller", "1"), ("agent", "2")] {
                    it.pods.objects.push(object(json!({
                        "metadata": { "name": component, "namespace": "windlass-system",
                            "labels": { "app.kubernetes.io/component": component } },
                        "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": format!("windlass:{tag}") }] },
                        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
                    })));
                }
            },
            Warning,
            "ControllerVersion",
        ),
        (
            "keepalived on the LAN",
            |it, _| {
                let mut hears = network("n1");
                hears["spec"]["agentVersion"] = json!(env!("CARGO_PKG_VERSION"));
                hears["spec"]["foreignRouters"] =
                    json!([{ "interface": "eth0", "vrid": 51, "source": "198.51.100.9", "version": 2 }]);
                it.networks.objects[0] = object(hears);
            },
            Warning,
            "ForeignVRID",
        ),
        (
            "Deployments that may not be read",
            |_, it| {
                it.missing.push(Missing {
                    kind: "Deployments".to_owned(),
                    cause: Cause::Forbidden,
                    message: "no".to_owned(),
                    remedy: "ask".to_owned(),
                });
            },
            Error,
            "Forbidden",
        ),
        (
            "what status tells",
            |it, _| it.leases.objects[0] = object(lease("n1_0123", 300)),
            Error,
            "NoLeader",
        ),
    ];
    for (what, change, severity, reason) in rows {
        let (mut snapshot, mut survey) = (cluster(), surveyed());
        change(&mut snapshot, &mut survey);
        assert_eq!(told(&snapshot, &survey), [(*severity, (*reason).to_owned())], "{what}");
    }
}

#[test]
fn what_only_looks_like_a_rival_is_none() {
    let mut survey = surveyed();
    survey.workloads = vec![
        // The control plane's address alone.
        workload(
            "kube-vip",
            &json!({ "image": "ghcr.io/kube-vip/kube-vip:v1", "env": [{ "name": "svc_enable", "value": "false" }] }),
        ),
        workload("cilium", &json!({ "image": "quay.io/cilium/cilium:v1.18" })),
        Workload {
            is_own: true,
            ..workload("windlass", &json!({ "args": ["controller", "--x=cloud-controller-manager"] }))
        },
    ];
    assert_eq!(told(&cluster(), &survey), []);
}

#[test]
fn before_it_is_installed_only_what_matters_then_is_found() {
    let absent = |kind: &str| Missing {
        kind: kind.to_owned(),
        cause: Cause::NotInstalled,
        message: "absent".to_owned(),
        remedy: "install".to_owned(),
    };
    let mut snapshot =
        Snapshot { server: "https://192.0.2.1:6443".to_owned(), now: now(), ..Snapshot::default() };
    snapshot.nodes.objects.push(object(node("n1")));
    snapshot.pools.missing = Some(absent("VirtualIPPools"));
    snapshot.networks.missing = Some(absent("NodeNetworks"));
    let mut waiting = service("b", "", "", "", "");
    waiting["status"] = json!({});
    snapshot.services.objects.push(object(waiting));
    let report = Report::of(Some(&snapshot), &Survey::default(), None, None, now());
    let reasons: Vec<&str> = report.findings.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(
        (reasons, report.is_incomplete, report.exit_code()),
        (vec!["NotInstalled"], false, ExitCode::SUCCESS)
    );
    snapshot.leases.objects.push(object(lease("k3s_0123", 3)));
    let reasons = told(&snapshot, &Survey::default()).into_iter().map(|(_, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), ["NotInstalled", "LeaseTaken", "NoProviderID"]);
}

/// A host on which nothing is wrong: node n2, which hears n1.
fn host() -> Host {
    let loose = Settings { rp_filter: 2, ..Settings::default() };
    let heard = Advert { source: "198.51.100.1".parse().unwrap(), version: 3, vrid: 1 };
    Host {
        capabilities: u64::MAX,
        nf_tables: None,
        sharing: None,
        tracking: Ok((10, 1000)),
        has_ipv6: true,
        settings: [("all".to_owned(), Settings::default()), ("eth0".to_owned(), loose)].into(),
        ipv6_forwarding: Some(1),
        realtime: Some(950_000),
        cgroup_realtime: Vec::new(),
        is_selinux_enforcing: false,
        bridges: vec!["br0".to_owned()],
        filters_bridged: false,
        rules: Ok(BTreeSet::new()),
        ruleset: Ok(Ruleset { masquerade: Some(0x4000), ..Ruleset::default() }),
        dropping_all: Vec::new(),
        proxy_mode: Some("nftables".to_owned()),
        addresses: ["198.51.100.2", "2001:db8::2"].map(|it| it.parse().unwrap()).into(),
        ports: vec![(10258, "windlass".to_owned())],
        adverts: Ok(BTreeSet::from([heard])),
        listened: Duration::from_secs(4),
    }
}

/// A program that uses these bits of packet marks.
fn user(bits: u32) -> MarkUser {
    MarkUser {
        name: "ip rule 100".to_owned(),
        bits,
        statement: "from all fwmark 0x10/0xff lookup 100".to_owned(),
    }
}

#[test]
fn what_is_usual_on_a_host_is_no_finding() {
    let rows: &[(&str, Fault)] = &[
        ("kube-proxy's bits", |it| it.rules = Ok([user(0xc000)].into())),
        ("real-time scheduling without a limit", |it| it.realtime = Some(-1)),
        ("filtered bridges of containers alone", |it| (it.filters_bridged, it.bridges) = (true, Vec::new())),
        ("Calico's proxy ARP", |it| {
            it.settings.insert("cali1234".to_owned(), Settings { proxy_arp: 1, ..Settings::default() });
        }),
        ("no IPv6 but link-local", |it| {
            (it.ipv6_forwarding, it.addresses) = (Some(0), ["fe80::2".parse().unwrap()].into());
        }),
        ("nothing can be read", |it| {
            (it.rules, it.ruleset) = (Err("no ip".to_owned()), Err("no nft".to_owned()));
            (it.ipv6_forwarding, it.realtime, it.proxy_mode) = (None, None, None);
        }),
    ];
    for (what, change) in rows {
        let mut host = host();
        change(&mut host);
        assert_eq!(host::findings(&host, None), [], "{what}");
        assert!(!host::facts(&host).is_empty());
    }
}

/// A change to a host on which nothing is wrong.
type Fault = fn(&mut Host);

// shows: field-reports F-84, F-86
#[test]
fn what_is_wrong_on_a_host_is_found_with_a_remedy() {
    use Severity::{Error, Warning};
    let mut snapshot = cluster();
    snapshot.routers.objects[0].spec.nodes[1].address = "198.51.100.2".parse().unwrap();
    assert_eq!(host::findings(&host(), Some(&snapshot)), []);
    let rows: &[(&str, Fault, Severity, &str)] = &[
        ("no root", |it| it.capabilities &= !(1 << 13), Error, "NoCapability"),
        ("no real-time priority", |it| it.capabilities &= !(1 << 23), Warning, "NoCapability"),
        ("no nf_tables", |it| it.nf_tables = Some("not supported".to_owned()), Warning, "KernelFeature"),
        ("no sharing", |it| it.sharing = Some("not supported".to_owned()), Warning, "KernelFeature"),
        ("no conntrack", |it| it.tracking = Err("not supported".to_owned()), Warning, "KernelFeature"),
        ("conntrack is full", |it| it.tracking = Ok((800, 1000)), Warning, "KernelFeature"),
        ("no IPv6", |it| it.has_ipv6 = false, Warning, "KernelFeature"),
        ("a strict filter", |it| it.settings.get_mut("eth0").unwrap().rp_filter = 1, Warning, "StrictFilter"),
        (
            "IPVS",
            |it| {
                it.settings.insert("kube-ipvs0".to_owned(), Settings::default());
            },
            Error,
            "StrictARP",
        ),
        (
            "ip_forward is 0",
            |it| {
                for settings in it.settings.values_mut() {
                    settings.forwarding = 0;
                }
            },
            Error,
            "NotForwarding",
        ),
        (
            "an interface does not forward",
            |it| it.settings.get_mut("eth0").unwrap().forwarding = 0,
            Error,
            "NotForwarding",
        ),
        ("IPv6 is not forwarded", |it| it.ipv6_forwarding = Some(0), Warning, "NotForwarding"),
        ("proxy ARP", |it| it.settings.get_mut("eth0").unwrap().proxy_arp = 1, Warning, "ProxyARP"),
        ("proxy ARP of all", |it| it.settings.get_mut("all").unwrap().proxy_arp = 1, Warning, "ProxyARP"),
        (
            "FORWARD drops",
            |it| it.dropping_all = vec!["ip filter FORWARD".to_owned()],
            Error,
            "ForwardDropped",
        ),
        (
            "FORWARD drops what no rule accepts",
            |it| {
                it.ruleset =
                    Ok(Ruleset { dropping: ["ip filter FORWARD".to_owned()].into(), ..Ruleset::default() });
            },
            Warning,
            "ForwardPolicy",
        ),
        ("a rule tests our bits", |it| it.rules = Ok([user(0xff)].into()), Warning, "MarkTaken"),
        (
            "a chain writes our bits",
            |it| it.ruleset = Ok(Ruleset { users: [user(0x10)].into(), ..Ruleset::default() }),
            Warning,
            "MarkTaken",
        ),
        ("bridged packets are filtered", |it| it.filters_bridged = true, Warning, "BridgedPackets"),
        ("SELinux", |it| it.is_selinux_enforcing = true, Warning, "SELinux"),
        ("no real-time scheduling", |it| it.realtime = Some(0), Warning, "RealtimeThrottled"),
        (
            "none for the pods' cgroup",
            |it| it.cgroup_realtime = vec![("/sys/fs/cgroup/cpu/kubepods/cpu.rt_runtime_us".to_owned(), 0)],
            Warning,
            "RealtimeThrottled",
        ),
        ("a port of one mode is taken", |it| it.ports[0].1 = "k3s".to_owned(), Warning, "PortTaken"),
        ("a port is taken", |it| it.ports[0] = (9860, "k3s".to_owned()), Error, "PortTaken"),
        ("n1 is not heard", |it| it.adverts = Ok(BTreeSet::new()), Error, "NotHeard"),
        ("no socket", |it| it.adverts = Err("not permitted".to_owned()), Warning, "NotListened"),
    ];
    for (what, change, severity, reason) in rows {
        let mut host = host();
        change(&mut host);
        let found = host::findings(&host, Some(&snapshot));
        let told: Vec<_> = found.iter().map(|it| (it.severity, it.reason.as_str())).collect();
        assert_eq!(told, [(*severity, *reason)], "{what}");
        assert!(found.iter().all(|it| !it.message.is_empty() && !it.remedy.is_empty()), "{what}");
    }
    // A loose filter of all makes each loose; the Active node need not hear itself, nor one that takes no part.
    let mut host = host();
    host.settings.get_mut("eth0").unwrap().rp_filter = 1;
    host.settings.get_mut("all").unwrap().rp_filter = 2;
    host.adverts = Ok(BTreeSet::new());
    for here in ["198.51.100.1", "203.0.113.1"] {
        host.addresses = BTreeSet::from([here.parse().unwrap()]);
        assert_eq!(host::findings(&host, Some(&snapshot)), [], "{here}");
    }
    let report = Report::of(None, &Survey::default(), None, Some(&host), now());
    assert!(report.text(false).contains("check of this host"), "{report:?}");
}

#[test]
fn the_page_has_each_reason_that_is_found_here() {
    let page = include_str!("../../../../../docs/conditions.md");
    let found = [
        include_str!("cluster.rs"),
        include_str!("rivals.rs"),
        include_str!("host/mod.rs"),
        include_str!("host/kernel.rs"),
        include_str!("host/settings.rs"),
        include_str!("host/bridges.rs"),
        include_str!("host/marks.rs"),
        include_str!("host/ports.rs"),
        include_str!("host/heard.rs"),
    ]
    .concat();
    let quoted = found.split('"').skip(1).step_by(2);
    let is_reason = |word: &&str| {
        word.len() > 3 && word.chars().all(char::is_alphabetic) && word.starts_with(char::is_uppercase)
    };
    let kinds = [
        "ConfigMap",
        "DaemonSet",
        "Definition",
        "Definitions",
        "Deployment",
        "Host",
        "Lease",
        "LoadBalancer",
        "Node",
        "Program",
        "Service",
        "VRID",
        "VRRP",
        "NotServed",
        "Agents",
        "Multicast",
        "Nodes",
        "Rivals",
        "Connections",
        "MetalLB",
        "PureLB",
        "OpenELB",
        "Marks",
        "FORWARD",
    ];
    let reasons: BTreeSet<&str> = quoted.filter(is_reason).filter(|word| !kinds.contains(word)).collect();
    assert!(reasons.len() > 15, "{reasons:?}");
    for reason in reasons {
        assert!(page.contains(&format!("`{reason}`")), "{reason}");
    }
}
