//! Files as people have them.

use serde_json::{Value, json};

use super::super::{Conversion, Source};
use super::{contains_all, printed_both};

/// Specs of the pools and of the Announcements.
fn specs(conversion: &Conversion) -> [Vec<Value>; 2] {
    printed_both(conversion).map(|objects| objects.iter().map(|object| object["spec"].clone()).collect())
}

/// As kube-vip prints it for a control-plane node.
const STATIC_POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: kube-vip, namespace: kube-system}
spec:
  containers:
  - args: [manager]
    env:
    - {name: vip_arp, value: "true"}
    - {name: port, value: "6443"}
    - {name: vip_nodename, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: vip_interface, value: ens192}
    - {name: vip_subnet, value: "32"}
    - {name: dns_mode, value: first}
    - {name: cp_enable, value: "true"}
    - {name: cp_namespace, value: kube-system}
    - {name: svc_enable, value: "true"}
    - {name: vip_leaderelection, value: "true"}
    - {name: vip_leasename, value: plndr-cp-lock}
    - {name: vip_leaseduration, value: "5"}
    - {name: lb_enable, value: "true"}
    - {name: lb_port, value: "6443"}
    - {name: lb_fwdmethod, value: local}
    - {name: address, value: 192.0.2.200}
    - {name: prometheus_server, value: ":2112"}
    image: ghcr.io/kube-vip/kube-vip:v1.0.0
    name: kube-vip
"#;

#[test]
fn the_control_planes_manifest_of_kube_vip_becomes_settings_of_windlass_vip() {
    let conversion = Source::KubeVip { vip: true }.convert(STATIC_POD);
    let expected = json!({ "vips": [{
        "address": "192.0.2.200", "interface": "ens192", "ports": [6443],
        "checks": [{ "https": { "url": "https://127.0.0.1:6443/readyz" } }],
    }] });
    assert_eq!(serde_saphyr::from_str::<Value>(&conversion.yaml).unwrap(), expected);
    assert_eq!(conversion.errors, [""; 0]);
    let said = conversion.warnings.join("\n");
    for words in [
        "lb_enable (\"true\"), lb_port (\"6443\"), lb_fwdmethod (\"local\") not converted",
        "balance.backends",
        "vip_leaderelection (\"true\"), vip_leaseduration (\"5\"), vip_leasename (\"plndr-cp-lock\") not converted: the nodes elect by VRRP",
        "vip_subnet (\"32\") not converted",
        "dns_mode (\"first\") not converted",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn pools_of_kube_vip_are_those_that_namespaces_get_without_the_address_of_the_api_server() {
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubevip, namespace: kube-system}\ndata: {cidr-global: 192.0.2.192/26, \
               cidr-shop: 192.0.2.240/28, range-a: '192.0.2.1-192.0.2.9', range-b: '192.0.2.1-192.0.2.9'}\n";
    let ranges = map.replace("cidr-global: 192.0.2.192/26, ", "");
    let [pools, announcements] =
        specs(&Source::KubeVip { vip: false }.convert(&(STATIC_POD.to_owned() + map)));
    let own = json!({ "addresses": ["192.0.2.240/28"], "namespaces": ["shop"], "whenFull": "Wait" });
    let rest = json!({ "addresses": ["192.0.2.192-192.0.2.199", "192.0.2.201-192.0.2.239"] });
    assert_eq!(pools, [own, rest]);
    let names = ["shop", "global"].map(|name| json!({ "pools": [name], "interfaces": ["ens192"] }));
    assert_eq!(announcements, names);
    let conversion = Source::KubeVip { vip: false }.convert(&ranges);
    let one = json!({ "addresses": ["192.0.2.1-192.0.2.9"], "namespaces": ["a", "b"], "whenFull": "Wait" });
    assert!(specs(&conversion)[0].contains(&one), "{conversion:?}");
    // Of a DaemonSet for Services, by BGP.
    let pod = STATIC_POD
        .replace("vip_arp, value: \"true\"", "bgp_enable, value: \"true\"")
        .replace("cp_enable, value: \"true\"", "lb_class_only, value: \"true\"");
    let conversion = Source::KubeVip { vip: false }.convert(&(pod + map));
    assert!(specs(&conversion)[0].iter().all(|spec| spec["autoAssign"] == false), "{conversion:?}");
    assert!(
        conversion
            .warnings
            .iter()
            .any(|line| line.contains("lb_class_only") && line.contains("--classless-services=false"))
    );
}

#[test]
fn helm_values_of_metallb_are_read_and_services_that_share_across_namespaces_are_named() {
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: metallb, namespace: flux}\nspec:\n  chart: {spec: \
        {chart: metallb}}\n  values:\n    loadBalancerClass: corp/lb\n    configInline:\n      address-pools:\n      - {name: lan, protocol: layer2, \
        addresses: [192.0.2.0/28]}\n    speaker: {frr: {enabled: true}}\n";
    let service = |namespace: &str, class: &str, address: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: {namespace}, annotations: {{metallb.io/allow-shared-ip: k}}}}\n\
             spec: {{type: LoadBalancer{class}}}\nstatus: {{loadBalancer: {{ingress: [{{ip: {address}}}]}}}}\n"
        )
    };
    let text = release.to_owned()
        + &service("a", "", "192.0.2.1")
        + &service("b", "", "192.0.2.1")
        + &service("c", ", loadBalancerClass: corp/lb", "198.51.100.7")
        + &service("d", ", loadBalancerClass: other", "198.51.100.8");
    let conversion = Source::Metallb.convert(&text);
    assert_eq!(specs(&conversion)[0], [json!({ "addresses": ["192.0.2.0/28"] })]);
    contains_all(
        &conversion.warnings,
        &[
            &["HelmRelease flux/metallb: spec.values", "speaker", "MetalLB's own installation"],
            &[
                "Service a/s, Service b/s, Service c/s: annotation metallb.io/allow-shared-ip",
                "windlass.dev/sharing-key: \"k\"",
            ],
            &["Service c/s", "corp/lb", "create the Service again"],
            &["Service c/s", "198.51.100.7 is in no pool"],
            &["sharing key \"k\"", "a, b, c", "windlass.dev/share-with"],
        ],
    );
    let argo = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: m}\nspec: {source: {helm: {values: \"configInline: {address-pools: \
                [{name: lan, addresses: [192.0.2.0/28]}]}\"}}}\n";
    assert_eq!(specs(&Source::Metallb.convert(argo))[0], [json!({ "addresses": ["192.0.2.0/28"] })]);
}

/// As the Kubernetes guide for highly available clusters has it, with what people add.
const HAPROXY: &str = r#"
global_defs {
    router_id LVS_DEVEL
    enable_script_security
}
vrrp_script check_apiserver {
    script "/etc/keepalived/check_apiserver.sh"
    interval 3
    weight -2
    fall 10
    rise 2
}
vrrp_instance VI_1 {
    state MASTER
    interface bond0.678
    virtual_router_id 51
    priority 101
    preempt_delay 60
    use_vmac
    authentication {
        auth_type PASS
        auth_pass 42
    }
    track_interface {
        bond0
    }
    virtual_ipaddress {
        192.0.2.100/24
        fe80::100/64
    }
    track_script {
        check_apiserver weight -50
        chk_gone
    }
    notify "/etc/keepalived/notify.sh"
}
"#;

#[test]
fn keepaliveds_configuration_of_the_kubernetes_guide_keeps_interface_mac_links_and_delay() {
    let conversion = Source::Keepalived { vip_port: Vec::new() }.convert(HAPROXY);
    let [pools, announcements] = specs(&conversion);
    assert_eq!(pools, [json!({ "addresses": ["192.0.2.100/32"], "autoAssign": false })]);
    let announced = &announcements[0];
    assert_eq!(announced["interfaces"], json!(["bond0.678"]));
    assert_eq!(announced["checks"][0]["link"], json!({ "interfaces": ["bond0"] }));
    assert_eq!(
        (&announced["vrrp"]["preemptDelaySeconds"], &announced["vrrp"]["virtualMAC"]),
        (&json!(60), &json!(true))
    );
    let said = conversion.warnings.join("\n");
    for words in [
        "asks the API server",
        "fe80::100 is left out: it is link-local",
        "notify /etc/keepalived/notify.sh (line",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let conversion = Source::Keepalived { vip_port: vec![6443] }.convert(HAPROXY);
    let vips: Value = serde_saphyr::from_str(&conversion.yaml).unwrap();
    let vip = &vips["vips"][0];
    assert_eq!(vip["checks"][0]["command"]["command"], json!(["/etc/keepalived/check_apiserver.sh"]));
    assert_eq!((&vip["interface"], vips["vips"].as_array().unwrap().len()), (&json!("bond0.678"), 1));
    let said = conversion.warnings.join("\n");
    for words in [
        "weight -50 lowers the priority",
        "names \"chk_gone\", and there is no such vrrp_script",
        "preempt_delay 60 (line",
        "use_vmac (line",
        "track_interface (line",
        "notify /etc/keepalived/notify.sh (line",
        "virtual_router_id 51 (line",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn policies_of_cilium_keep_what_an_announcement_can_say_of_their_interfaces() {
    let pool = "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: lan}\nspec: {blocks: [{cidr: 192.0.2.0/28}]}\n---\n";
    let policy = |interfaces: &str| {
        format!(
            "{pool}apiVersion: cilium.io/v2alpha1\nkind: CiliumL2AnnouncementPolicy\nmetadata: {{name: lan}}\nspec: {{loadBalancerIPs: true, \
             interfaces: {interfaces}, nodeSelector: {{matchLabels: {{a: b}}}}}}\n"
        )
    };
    let nodes = json!([{ "matchLabels": { "a": "b" } }]);
    let rows = [
        ("['^eth[01]$', '^(eno|ens)1$']", json!(["eth0", "eth1", "eno1", "ens1"]), 0, 0),
        ("['bond0.678']", json!(["*bond0.678*"]), 1, 0),
        (r"['^enp.+', '^ens\d{1,4}$']", json!(["enp*", "ens*"]), 2, 0),
        (r"['^\p{L}+$', '^eth0$']", json!(["eth0"]), 0, 1),
        (r"['^\p{L}+$']", Value::Null, 0, 1),
    ];
    for (expressions, interfaces, warnings, errors) in rows {
        let conversion = Source::Cilium.convert(&policy(expressions));
        assert_eq!(
            (conversion.warnings.len(), conversion.errors.len()),
            (warnings, errors),
            "{conversion:?}"
        );
        let [_, announcements] = specs(&conversion);
        assert_eq!(
            (&announcements[0]["interfaces"], &announcements[0]["nodeSelectors"]),
            (&interfaces, &nodes)
        );
    }
    let bgp = format!(
        "{pool}apiVersion: cilium.io/v2\nkind: CiliumBGPAdvertisement\nmetadata: {{name: b}}\nspec: {{advertisements: [{{}}]}}\n"
    );
    let conversion = Source::Cilium.convert(&bgp);
    assert_eq!(specs(&conversion)[0][0]["autoAssign"], false);
    contains_all(
        &conversion.warnings,
        &[
            &["only BGP announces it", "autoAssign: false"],
            &["CiliumBGPAdvertisement b", "spec.advertisements"],
        ],
    );
}
