//! Findings from the API server's objects: definitions, kube-proxy, nodes, Services, versions, foreign routers. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use windlass_api::LOAD_BALANCER_CLASS;
use windlass_ccm::node::TAINT_UNINITIALIZED;
use windlass_common::listing::first_of;

use super::super::problems::{Problem, leader};
use super::super::snapshot::{Cause, LEASE, Snapshot, allocated, created, full_name, is_linux, shown};
use super::survey::Survey;
use super::{Fact, rivals};

/// Age below which an object may still be in progress.
const UNDER_WAY: SignedDuration = SignedDuration::from_mins(1);
/// Reasons of problems that follow from the mere absence of Windlass before it is installed.
const OF_ABSENCE: [&str; 4] = ["NotInstalled", "NoLeader", "NoPool", "NoAgent"];

/// Returns true if Windlass' definitions are installed.
pub(super) fn is_installed(snapshot: &Snapshot, survey: &Survey) -> bool {
    let is_absent = snapshot.pools.missing.as_ref().is_some_and(|it| it.cause == Cause::NotInstalled);
    survey.definitions.is_some() || !is_absent
}

/// Returns true if a problem counts before Windlass is installed. A Service that waits then waits for another controller.
pub(super) fn counts_before(problem: &Problem) -> bool {
    !OF_ABSENCE.contains(&problem.reason.as_str()) && problem.reason != "NotServed"
}

pub(super) fn findings(snapshot: &Snapshot, survey: &Survey, is_installed: bool) -> Vec<Problem> {
    let mut findings = Vec::new();
    findings.extend(if is_installed { definitions(survey) } else { Some(not_installed()) });
    findings.extend(held_before(snapshot, is_installed));
    findings.extend(kube_proxy(survey));
    findings.extend(uninitialized(snapshot));
    findings.extend(without_provider_id(snapshot));
    findings.extend(unserved_classes(snapshot));
    findings.extend(versions(snapshot));
    findings.extend(foreign_routers(snapshot));
    findings
}

fn not_installed() -> Problem {
    Problem::warning("Definition", "windlass.dev", "NotInstalled").says(
        "Windlass' definitions are not in the cluster: it is not installed yet",
        "fix the problems listed here, then install it: docs/install.md",
    )
}

/// Kinds that the API server does not know.
fn definitions(survey: &Survey) -> Option<Problem> {
    let known = survey.definitions.as_ref()?;
    let wanted = windlass_api::all_crds().into_iter().map(|definition| definition.spec.names.plural);
    let absent: Vec<String> = wanted.filter(|plural| !known.contains(plural)).collect();
    (!absent.is_empty()).then(|| {
        let message = format!("the API server has no {} of windlass.dev/v1alpha1", absent.join(", "));
        Problem::error("Definition", absent.join(", "), "DefinitionMissing")
            .says(message, "kubectl apply -f manifests/crds, in the version of the controller")
    })
}

/// Before Windlass is installed: the lease that it would take is another's.
fn held_before(snapshot: &Snapshot, is_installed: bool) -> Option<Problem> {
    let leader = leader(snapshot).filter(|leader| !leader.is_silent && !is_installed)?;
    let message = format!(
        "it is held by {}, a cloud-controller-manager that works: Windlass would wait for it",
        leader.holder
    );
    Some(Problem::warning("Lease", leader.lease, "LeaseTaken").says(
        message,
        "install Windlass as the load balancer only, which has a lease of its own (manifests/components/load-balancer-only, \
         loadBalancerOnly of the chart)",
    ))
}

fn kube_proxy(survey: &Survey) -> Option<Problem> {
    let strict = survey.kube_proxy.as_ref().filter(|settings| settings.mode == "ipvs")?.strict_arp;
    let name = "kube-system/kube-proxy";
    Some(if strict {
        Problem::warning("ConfigMap", name, "IPVS").says(
            "mode is ipvs: agents do without the guard, so that ports which no Service takes are answered by the node itself",
            "set mode: nftables, or leave it (docs/dev/guard.md)",
        )
    } else {
        Problem::error("ConfigMap", name, "StrictARP").says(
            "mode is ipvs and ipvs.strictARP is false: each node has the addresses on kube-ipvs0 and answers ARP for them, beside the \
             node that announces them",
            "set ipvs.strictARP: true and restart kube-proxy, or set mode: nftables",
        )
    })
}

fn has_taint(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == TAINT_UNINITIALIZED)
}

/// Nodes that wait for a cloud-controller-manager.
fn uninitialized(snapshot: &Snapshot) -> Option<Problem> {
    let is_old =
        |node: &&Node| created(*node).is_none_or(|made| snapshot.now.duration_since(made) > UNDER_WAY);
    let waiting: Vec<String> = snapshot
        .nodes
        .objects
        .iter()
        .filter(|node| has_taint(node))
        .filter(is_old)
        .map(Node::name_any)
        .collect();
    let leads = leader(snapshot).is_some_and(|leader| !leader.is_silent);
    (!waiting.is_empty() && snapshot.leases.missing.is_none()).then(|| {
        let nodes = first_of(waiting.iter(), 3);
        let message = if leads {
            format!("{nodes} has the taint {TAINT_UNINITIALIZED} for more than a minute, although a cloud-controller-manager leads")
        } else {
            format!("{nodes} has the taint {TAINT_UNINITIALIZED}, and no cloud-controller-manager leads: no pod is scheduled there")
        };
        let remedy = "let Windlass' controller run as the cloud-controller-manager, not as the load balancer only, and read its log; or take \
                      --cloud-provider=external from the kubelet";
        Problem::error("Node", nodes, "Uninitialized").says(message, remedy)
    })
}

/// Nodes of which the full cloud-controller-manager has written nothing.
fn without_provider_id(snapshot: &Snapshot) -> Option<Problem> {
    let leader = leader(snapshot).filter(|leader| !leader.is_silent && leader.lease.ends_with(LEASE))?;
    let has_none = |node: &&Node| {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        id.is_none_or(str::is_empty) && !has_taint(node)
    };
    let without: Vec<String> = snapshot.nodes.objects.iter().filter(has_none).map(Node::name_any).collect();
    (!without.is_empty()).then(|| {
        let nodes = first_of(without.iter(), 3);
        let message = format!(
            "{nodes} has no spec.providerID: its kubelet runs without --cloud-provider=external, so that {} does not keep its addresses \
             and labels",
            leader.holder
        );
        let remedy = "start the kubelet with --cloud-provider=external, or run Windlass as the load balancer only (docs/install.md)";
        Problem::warning("Node", nodes, "NoProviderID").says(message, remedy)
    })
}

/// Returns a problem for Services of each class on which no controller has reported anything.
fn unserved_classes(snapshot: &Snapshot) -> Vec<Problem> {
    let mut by_class: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for service in &snapshot.services.objects {
        let Some(spec) = service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
        else {
            continue;
        };
        let Some(class) = spec.load_balancer_class.as_deref().filter(|class| *class != LOAD_BALANCER_CLASS)
        else {
            continue;
        };
        let is_young = created(service).is_some_and(|made| snapshot.now.duration_since(made) < UNDER_WAY);
        if shown(service).is_empty() && allocated(service).is_none() && !is_young {
            by_class.entry(class).or_default().push(full_name(service));
        }
    }
    let told = |(class, services): (&str, Vec<String>)| {
        let message = format!(
            "no controller of spec.loadBalancerClass {class:?} has assigned an address to {}",
            first_of(services.iter(), 3)
        );
        let remedy = format!(
            "run that controller, or recreate the Service with spec.loadBalancerClass {LOAD_BALANCER_CLASS} or without the field"
        );
        Problem::warning("Service", first_of(services.iter(), 1), "ClassNotServed").says(message, remedy)
    };
    by_class.into_iter().map(told).collect()
}

/// Controller and agents of several images; this program of another version than agents.
fn versions(snapshot: &Snapshot) -> Vec<Problem> {
    let image = |pod: &Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
    let of = |pods: &mut dyn Iterator<Item = &Pod>| pods.filter_map(image).collect::<BTreeSet<String>>();
    let (controllers, agents) = (of(&mut snapshot.controllers()), of(&mut snapshot.agents()));
    let mut findings = Vec::new();
    if !controllers.is_empty() && !agents.is_empty() && controllers != agents {
        let message = format!(
            "the controller runs {}, and agents {}",
            first_of(controllers.iter(), 3),
            first_of(agents.iter(), 3)
        );
        findings.push(
            Problem::warning("Deployment", "windlass-system/windlass-controller", "ControllerVersion")
                .says(message, "finish the upgrade: give both the same image (docs/operations.md)"),
        );
    }
    let own = env!("CARGO_PKG_VERSION");
    let others: BTreeSet<&str> = snapshot
        .networks
        .objects
        .iter()
        .map(|it| it.spec.agent_version.as_str())
        .filter(|it| *it != own)
        .collect();
    if !others.is_empty() {
        let message = format!("this program is {own}, and agents are {}", first_of(others.iter(), 3));
        findings.push(
            Problem::warning("Program", "windlass", "OtherVersion")
                .says(message, "use a windlass of the version that runs in the cluster"),
        );
    }
    findings
}

/// Returns a problem for each VRID of a foreign router, as keepalived: the VRID is kept free.
fn foreign_routers(snapshot: &Snapshot) -> Vec<Problem> {
    let mut heard: BTreeMap<(u8, String, u8), Vec<String>> = BTreeMap::new();
    for network in &snapshot.networks.objects {
        for router in &network.spec.foreign_routers {
            let key = (router.vrid, router.source.to_string(), router.version);
            heard.entry(key).or_default().push(network.name_any());
        }
    }
    let told = |((vrid, source, version), nodes): ((u8, String, u8), Vec<String>)| {
        let by = first_of(nodes.iter(), 3);
        let message = format!(
            "{source} sends VRRP {version} adverts with VRID {vrid}, received by {by}; Windlass uses no VRID \
             that its nodes receive"
        );
        let remedy =
            "nothing, if you know the host (keepalived, a router, another cluster); else find out what it is";
        Problem::warning("VRID", vrid.to_string(), "ForeignVRID").says(message, remedy)
    };
    heard.into_iter().map(told).collect()
}

/// Returns the facts about the cluster that were looked at.
pub(super) fn facts(snapshot: &Snapshot, survey: &Survey, is_installed: bool) -> Vec<Fact> {
    let line = |name, value| Fact { name, value };
    let count =
        |count: Option<usize>| count.map_or_else(|| "not installed".to_owned(), |it| format!("{it} kinds"));
    let proxy = survey.kube_proxy.as_ref().map_or_else(
        || "unknown: there is no ConfigMap kube-system/kube-proxy".to_owned(),
        |settings| format!("mode {}", settings.mode),
    );
    let rivals = rivals::names(survey);
    let apart: Vec<String> = snapshot
        .networks
        .objects
        .iter()
        .flat_map(|it| {
            it.spec.without_multicast.iter().map(|peer| format!("{} and {}", it.name_any(), peer.node))
        })
        .collect();
    let multicast = match (snapshot.networks.objects.len(), &apart[..]) {
        (0, _) => "no agent has reported".to_owned(),
        (_, []) => "no agent has reported a pair of nodes between which it does not pass; agents try it \
                    between an Active and its Backups"
            .to_owned(),
        (_, some) => format!("does not pass between {}", first_of(some.iter(), 3)),
    };
    let nodes = snapshot.nodes.objects.iter().filter(|node| is_linux(node)).count();
    let mut lines = vec![
        line(
            "Definitions",
            count(survey.definitions.as_ref().map(|it| it.iter().filter(|one| !one.contains('/')).count())),
        ),
        line("Rivals", if rivals.is_empty() { "none".to_owned() } else { rivals.join(", ") }),
        line("kube-proxy", proxy),
    ];
    if is_installed {
        lines.push(line(
            "Agents",
            format!("{} of {nodes} nodes have reported", snapshot.networks.objects.len()),
        ));
        lines.push(line("Multicast", multicast));
    } else {
        lines.push(line("Nodes", nodes.to_string()));
    }
    lines
}
