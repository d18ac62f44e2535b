//! The commands of docs/migration.md that read what another load balancer has in a cluster, as a shell runs them.

use std::fs;

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, scenario, windlass_binary};

use super::METALLB;
use super::others::{CILIUM, KEEPALIVED, KUBE_VIP, PURELB};
use crate::setup::code_blocks;

const PAGE: &str = "docs/migration.md";
/// Where the page has keepalived's configuration.
const CONFIGURATION: &str = "/etc/keepalived/keepalived.conf";

/// Group, version, kind and scope of what others have: what the converters make of the fields, other tests show.
const KINDS: [(&str, &str, &str, &str); 8] = [
    ("metallb.io", "v1beta1", "IPAddressPool", "Namespaced"),
    ("metallb.io", "v1beta1", "L2Advertisement", "Namespaced"),
    ("metallb.io", "v1beta1", "BGPAdvertisement", "Namespaced"),
    ("purelb.io", "v2", "ServiceGroup", "Namespaced"),
    ("purelb.io", "v2", "LBNodeAgent", "Namespaced"),
    ("cilium.io", "v2", "CiliumLoadBalancerIPPool", "Cluster"),
    ("cilium.io", "v2alpha1", "CiliumL2AnnouncementPolicy", "Cluster"),
    ("redhatcop.redhat.io", "v1alpha1", "KeepalivedGroup", "Namespaced"),
];

/// What keepalived-operator has.
const OPERATOR: &str = "
apiVersion: redhatcop.redhat.io/v1alpha1
kind: KeepalivedGroup
metadata: {name: router, namespace: keepalived}
spec: {image: x, interface: eth0, nodeSelector: {node-role.kubernetes.io/infra: ''}}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  annotations: {keepalived-operator.redhat-cop.io/keepalivedgroup: keepalived/router}
spec: {type: ClusterIP, externalIPs: [192.0.2.50], ports: [{port: 80}]}
";

fn definition((group, version, kind, scope): (&str, &str, &str, &str)) -> String {
    let singular = kind.to_lowercase();
    let plural = if singular.ends_with('y') {
        format!("{}ies", singular.trim_end_matches('y'))
    } else {
        format!("{singular}s")
    };
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  scope: {scope}
  versions:
  - name: {version}
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
"
    )
}

/// The commands of the page that convert, and what of the objects above is in what they print.
const EXPECTED: [(&str, &[&str]); 5] = [
    ("convert metallb", &["name: first", "name: every-field", "kind: Announcement"]),
    ("convert kube-vip", &["192.0.2.200/29", "kind: Announcement"]),
    ("convert purelb", &["name: tenants", "10.201.0.7-10.201.0.9"]),
    ("convert cilium", &["name: blue-pool", "10.202.1.1", "kind: Announcement"]),
    // Of both its commands the second one writes last.
    ("convert keepalived", &["name: router", "192.0.2.50", "kind: Announcement"]),
];

#[test]
fn the_pages_commands_convert_what_others_have_in_the_cluster() -> anyhow::Result<()> {
    scenario("migration-pipelines", Lab::builder().nodes(1).light(), async |lab| {
        lab.apply(KINDS.map(definition).concat()).await?;
        lab.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).await?;
        for namespace in ["metallb-system", "purelb", "keepalived"] {
            lab.kubectl(&["create", "namespace", namespace]).await?;
        }
        for objects in [METALLB, PURELB, CILIUM, KUBE_VIP, OPERATOR] {
            lab.apply(objects).await?;
        }
        let mut converting = code_blocks(PAGE, "sh")?;
        converting.retain(|block| block.contains("windlass convert"));
        ensure!(converting.len() == EXPECTED.len(), "{PAGE} has other commands: {converting:?}");
        for (command, expected) in EXPECTED {
            let block = converting.iter().find(|block| block.contains(command));
            let block = block.with_context(|| format!("{PAGE} has no {command}"))?;
            let pools = in_shell(lab, block).await.context(command)?;
            for words in expected {
                ensure!(pools.contains(words), "{command}: {words:?} is not in {pools}");
            }
        }
        Ok(())
    })
}

/// What the commands leave in `pools.yaml`.
async fn in_shell(lab: &Lab, commands: &str) -> anyhow::Result<String> {
    let folder = lab.folder().join("migration");
    fs::create_dir_all(&folder)?;
    let configuration = folder.join("keepalived.conf");
    fs::write(&configuration, KEEPALIVED)?;
    let (folder, configuration) = (folder.display(), configuration.display().to_string());
    let (kubectl, kubeconfig) = (lab.tool("kubectl"), lab.kubeconfig("admin"));
    let script = format!(
        "set -euo pipefail; cd '{folder}'
kubectl() {{ '{kubectl}' --kubeconfig '{}' --cache-dir=/run/lab/kubectl \"$@\"; }}
windlass() {{ '{}' \"$@\" || [ $? = 3 ]; }}
rm -f pools.yaml
{}
cat pools.yaml",
        kubeconfig.display(),
        windlass_binary()?.display(),
        commands.replace(CONFIGURATION, &configuration),
    );
    lab.exec("cp", &["bash", "-c", &script]).await
}
