//! Other programs that serve Services of type LoadBalancer, or act as the cloud-controller-manager. Pure.

use windlass_common::listing::first_of;

use super::super::problems::Problem;
use super::super::snapshot::Snapshot;
use super::survey::{Survey, Workload};

/// A program, and how it is recognised.
struct Rival {
    name: &'static str,
    /// Test that a workload is part of it and serves Services.
    runs: fn(&Workload) -> bool,
    /// Kinds of which an object is enough.
    telltales: &'static [&'static str],
    /// Remedy by which Services leave it.
    remedy: &'static str,
}

const RIVALS: [Rival; 6] = [
    Rival {
        name: "MetalLB",
        runs: |it| it.mentions("metallb/controller") || it.mentions("metallb/speaker"),
        telltales: &[],
        remedy: "move to Windlass as docs/migration.md says (windlass convert metallb), or give each its own loadBalancerClass",
    },
    Rival {
        name: "kube-vip",
        runs: |it| {
            it.mentions("kube-vip-cloud-provider")
                || it.mentions("kube-vip/kube-vip") && (it.has("svc_enable=true") || it.has("--services"))
        },
        telltales: &[],
        remedy: "move to Windlass as docs/migration.md says (windlass convert kube-vip); its address of the control plane may stay \
                 (svc_enable: \"false\")",
    },
    Rival {
        name: "PureLB",
        runs: |it| it.mentions("purelb/"),
        telltales: &["servicegroups"],
        remedy: "move to Windlass as docs/migration.md says (windlass convert purelb), or give each its own loadBalancerClass",
    },
    Rival {
        name: "Cilium's LB-IPAM",
        runs: |_| false,
        telltales: &["ciliumloadbalancerippools", "ciliuml2announcementpolicies"],
        remedy: "move to Windlass as docs/migration.md says (windlass convert cilium), or give its pools serviceSelectors",
    },
    Rival {
        name: "OpenELB",
        runs: |it| it.mentions("openelb"),
        telltales: &[],
        remedy: "remove it once its addresses are in a VirtualIPPool, or give each its own loadBalancerClass",
    },
    Rival {
        name: "ServiceLB of k3s",
        runs: |it| it.mentions("klipper-lb") || it.mentions("svccontroller.k3s.cattle.io/svcname="),
        telltales: &[],
        remedy: "start the servers of k3s with --disable=servicelb",
    },
];

impl Workload {
    /// Returns true if one of its words contains `part`.
    fn mentions(&self, part: &str) -> bool {
        self.words.iter().any(|word| word.contains(part))
    }

    /// Returns true if one of its words is `word`.
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    fn told(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// The names of the rivals that are there.
pub(super) fn names(survey: &Survey) -> Vec<&'static str> {
    RIVALS.iter().filter(|rival| !found(rival, survey).is_empty()).map(|rival| rival.name).collect()
}

pub(super) fn findings(snapshot: &Snapshot, survey: &Survey) -> Vec<Problem> {
    let is_apart = !snapshot.settings().classless_services;
    let mut findings = Vec::new();
    for rival in &RIVALS {
        let found = found(rival, survey);
        if found.is_empty() {
            continue;
        }
        let by = first_of(found.iter(), 3);
        let what = if is_apart {
            "Windlass serves its own class alone, and both must not have one address"
        } else {
            "where both serve Services without a loadBalancerClass, both write their status"
        };
        let message = format!("{} is in the cluster ({by}): {what}", rival.name);
        findings.push(Problem::warning("LoadBalancer", rival.name, "Rival").says(message, rival.remedy));
    }
    let managers = survey.workloads.iter().filter(|it| !it.is_own && it.mentions("cloud-controller-manager"));
    for manager in managers {
        findings.push(Problem::warning(manager.kind, &manager.name, "OtherCloudController").says(
            "it is another cloud-controller-manager: of two, one holds the lease kube-system/cloud-controller-manager and the other \
             does nothing",
            "let Windlass be the load balancer only (manifests/components/load-balancer-only, loadBalancerOnly of the chart), or remove \
             the other",
        ));
    }
    findings
}

fn found(rival: &Rival, survey: &Survey) -> Vec<String> {
    let workloads = survey.workloads.iter().filter(|it| !it.is_own && (rival.runs)(it)).map(Workload::told);
    let telltales = rival.telltales.iter().filter(|kind| survey.telltales.contains(kind));
    workloads.chain(telltales.map(|kind| (*kind).to_owned())).collect()
}
