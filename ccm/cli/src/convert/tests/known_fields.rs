//! No setting disappears: every known field of every kind of input changes the output or standard error, and every unknown one is
//! named.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Conversion, Source};

/// An input, its converter, and the fields that one of its objects can have, each with another value than it has there.
struct Kind {
    source: Source,
    /// As JSON or YAML; the object is the last document.
    base: String,
    fields: String,
}

const POOL: &str = "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: a, labels: {l: m}}, spec: {addresses: [192.0.2.0/28]}}";

fn kinds() -> Vec<Kind> {
    let kube_vip = |vip| Source::KubeVip { vip };
    let pods = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kv}, spec: {template: {spec: {containers: [{image: kube-vip:1, env: \
                {address: 192.0.2.9}}]}}}}";
    let variables = "address: 192.0.2.8, vip_address: 192.0.2.7, port: '7443', vip_interface: eth1, vip_servicesinterface: eth2, vip_arp: 'false', \
        cp_enable: 'false', svc_enable: 'false', lb_enable: 'true', lb_port: '1', lb_fwdmethod: local, lb_class_only: 'true', lb_class_name: x, \
        bgp_enable: 'true', bgp_as: '1', bgp_peers: x, vip_arpRate: '3', vip_leaderelection: 'true', vip_leasename: x, vip_leaseduration: '5', \
        vip_renewdeadline: '3', vip_retryperiod: '1', vip_leaseannotations: x, vip_loglevel: '4', vip_interfaceloglobal: 'true', vip_subnet: '32', \
        vip_cidr: '32', egress_podcidr: x, egress_servicecidr: x, egress_withnftables: 'true', egress_clean: 'true', annotation: x, vip_ddns: 'true', \
        vip_nodename: x, vip_singlenode: 'true', vip_startleader: 'true', zebra_enable: 'true', mpbgp_nexthop: x, vip_wireguard: 'true', \
        vip_routingtable: 'true', vip_routingprotocol: '3', vip_cleanroutingtable: 'true', cp_namespace: x, cp_detect: 'true', kubernetes_addr: x, \
        svc_namespace: x, svc_election: 'true', svc_leasename: x, lb_class_legacy_handling: 'true', enable_service_security: 'true', \
        enable_node_labeling: 'true', prometheus_server: ':2112', k8s_config_file: x, dns_mode: first, disable_service_updates: 'true', \
        enable_endpoints: 'true', mirror_dest_interface: eth3, iptables_backend: nft, backend_health_check_interval: '5', health_check_port: '1', \
        enable_upnp: 'true', config_file: x";
    let variables: Vec<String> =
        variables.split(", ").map(|one| format!("spec.template.spec.containers.0.env.{one}")).collect();
    let variables = variables.join(", ");
    let with_pool = |rest: &str| format!("{POOL}\n---\n{rest}");
    let map = "{kind: ConfigMap, metadata: {name: kubevip}, data: {cidr-global: 192.0.2.0/28}}";
    vec![
        Kind {
            source: Source::Metallb,
            base: POOL.into(),
            fields: "spec.addresses: [192.0.3.0/24], spec.autoAssign: false, spec.avoidBuggyIPs: true, spec.serviceAllocation.priority: 7, \
                spec.serviceAllocation.namespaces: [a], spec.serviceAllocation.namespaceSelectors: [{matchLabels: {a: b}}], \
                spec.serviceAllocation.serviceSelectors: [{matchLabels: {a: b}}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: "{apiVersion: metallb.io/v1beta1, kind: AddressPool, metadata: {name: a}, spec: {addresses: [192.0.2.0/28]}}".into(),
            fields: "spec.protocol: bgp, spec.autoAssign: false, spec.avoidBuggyIPs: true, spec.bgpAdvertisements: [{localPref: 3}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: with_pool(
                "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: a}, spec: {ipAddressPools: [a]}}",
            ),
            fields: "spec.ipAddressPools: [b], spec.interfaces: [eth0], spec.nodeSelectors: [{matchLabels: {a: b}}], \
                spec.serviceSelectors: [{matchLabels: {a: b}}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: with_pool(
                "{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: a}, spec: {interfaces: [eth0], ipAddressPools: [b]}}",
            ),
            fields: "spec.ipAddressPoolSelectors: [{matchLabels: {l: m}}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: with_pool(
                "{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: a}, spec: {ipAddressPools: [b]}}",
            ),
            fields: "spec.aggregationLength: 26, spec.aggregationLengthV6: 64, spec.localPref: 3, spec.communities: [x], spec.ipAddressPools: [a], \
                spec.ipAddressPoolSelectors: [{matchLabels: {l: m}}], spec.nodeSelectors: [{matchLabels: {a: b}}], spec.peers: [x], \
                spec.serviceSelectors: [{matchLabels: {a: b}}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: with_pool("{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: a}, spec: {}}"),
            fields: "spec.myASN: 1, spec.peerASN: 2, spec.dynamicASN: internal, spec.peerAddress: 10.0.0.1, spec.interface: eth0, \
                spec.sourceAddress: 10.0.0.2, spec.peerPort: 179, spec.holdTime: 90s, spec.keepaliveTime: 30s, spec.connectTime: 10s, \
                spec.routerID: 10.0.0.3, spec.nodeSelectors: [{}], spec.password: x, spec.passwordSecret.name: x, spec.bfdProfile: x, \
                spec.enableGracefulRestart: true, spec.ebgpMultiHop: true, spec.vrf: x, spec.disableMP: true, spec.dualStackAddressFamily: true".into(),
        },
        Kind {
            source: Source::Metallb,
            base: "{address-pools: [{name: a, addresses: [192.0.2.0/28]}]}".into(),
            fields: "address-pools.0.protocol: bgp, address-pools.0.auto-assign: false, address-pools.0.avoid-buggy-ips: true, \
                address-pools.0.name: b, address-pools.0.bgp-advertisements: [{localpref: 1}], peers: [{my-asn: 1}], bgp-communities.a: '1:2', \
                bfd-profiles: [{name: x}]".into(),
        },
        Kind {
            source: Source::Metallb,
            base: "{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: m}, spec: {values: {configInline: {address-pools: \
                [{name: a, addresses: [192.0.2.0/28]}]}}}}".into(),
            fields: "spec.values.configInline.address-pools.0.auto-assign: false, spec.values.speaker.frr.enabled: true, \
                spec.values.metallb.configInline.address-pools: [{name: b, addresses: [192.0.3.0/28]}]".into(),
        },
        Kind {
            source: kube_vip(false),
            base: "{kind: ConfigMap, metadata: {name: kubevip}, data: {cidr-global: 192.0.2.0/28, cidr-shop: 192.0.3.0/28}}".into(),
            fields: "data.cidr-global: 192.0.4.0/28, data.cidr-shop: 192.0.4.0/28, data.range-global: 192.0.4.1-192.0.4.2, data.range-a: \
                192.0.4.1-192.0.4.2, data.interface-global: eth0, data.interface-shop: eth1, data.interface-x: eth1, data.allow-share-global: 'true', \
                data.allow-share-shop: 'true', data.skip-end-ips-in-cidr: 'true', data.search-order: desc, data.other: x".into(),
        },
        Kind { source: kube_vip(false), base: format!("{map}\n---\n{pods}"), fields: variables.clone() },
        Kind { source: kube_vip(true), base: pods.into(), fields: variables },
        Kind {
            source: Source::Purelb,
            base: "{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: default}, spec: {local: {v4pool: {subnet: 192.0.2.0/24, pool: \
                192.0.2.0/28}}}}".into(),
            fields: "spec.local.v4pool.pool: 192.0.2.16/28, spec.local.v4pool.subnet: 192.0.3.0/24, spec.local.v4pool.aggregation: /32, \
                spec.local.v6pool: {subnet: '2001:db8::/64', pool: '2001:db8::/124'}, spec.local.v4pools: [{subnet: 192.0.3.0/24, pool: \
                192.0.3.0/28}], spec.local.v6pools: [{subnet: '2001:db8::/64', pool: '2001:db8::/124'}], spec.local.skipIPv6DAD: true, \
                spec.local.multiPool: true, spec.local.balancePools: true, spec.remote.v4pool.pool: 192.0.4.0/28, spec.external.provider: x, \
                spec.external.socket: x, spec.external.announce: local, spec.netbox.url: x, spec.netbox.tenant: x, spec.netbox.aggregation: x, \
                spec.namespaces: [a], spec.enforceNamespaces: true, spec.namespaceDefault: true".into(),
        },
        Kind {
            source: Source::Purelb,
            base: "{apiVersion: purelb.io/v1, kind: ServiceGroup, metadata: {name: default}, spec: {local: {subnet: 192.0.2.0/24, pool: 192.0.2.0/28}}}".into(),
            fields: "spec.local.pool: 192.0.2.16/28, spec.local.subnet: 192.0.3.0/24, spec.local.aggregation: /32".into(),
        },
        Kind {
            source: Source::Purelb,
            base: "{apiVersion: purelb.io/v2, kind: LBNodeAgent, metadata: {name: default}, spec: {}}".into(),
            fields: "spec.nodeSelector.matchLabels: {a: b}, spec.local.localInterface: ^eth0$, spec.local.localint: ^eth0$, \
                spec.local.dummyInterface: lb1, spec.local.extlbint: lb1, spec.local.garpConfig.count: 5, spec.local.addressConfig.localInterface: \
                {validLifetime: 60}, spec.local.interfaces: [eth1], spec.local.addressGuard.mode: enforce".into(),
        },
        Kind {
            source: Source::Cilium,
            base: "{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: a}, spec: {blocks: [{cidr: 192.0.2.0/28}]}}".into(),
            fields: "spec.blocks.0.cidr: 192.0.3.0/28, spec.blocks.0.start: 192.0.2.1, spec.blocks.0.stop: 192.0.2.2, spec.cidrs: [{cidr: \
                192.0.3.0/28}], spec.allowFirstLastIPs: 'No', spec.serviceSelector.matchLabels: {a: b}, spec.disabled: true".into(),
        },
        Kind {
            source: Source::Cilium,
            base: "{apiVersion: cilium.io/v2alpha1, kind: CiliumL2AnnouncementPolicy, metadata: {name: a}, spec: {loadBalancerIPs: true}}".into(),
            fields: "spec.loadBalancerIPs: false, spec.externalIPs: true, spec.interfaces: [^eth0$], spec.nodeSelector.matchLabels: {a: b}, \
                spec.serviceSelector.matchLabels: {a: b}".into(),
        },
        Kind {
            source: Source::Cilium,
            base: "{apiVersion: cilium.io/v2, kind: CiliumBGPAdvertisement, metadata: {name: a}, spec: {}}".into(),
            fields: "spec.advertisements: [{advertisementType: Service}]".into(),
        },
        Kind {
            source: Source::Keepalived { vip_port: Vec::new() },
            base: "{kind: Service, apiVersion: v1, metadata: {name: s, annotations: {keepalived-operator.redhat-cop.io/keepalivedgroup: lan/g}}, spec: \
                {externalIPs: [192.0.2.1]}}\n---\n{apiVersion: redhatcop.redhat.io/v1alpha1, kind: KeepalivedGroup, metadata: {name: g, namespace: lan}, \
                spec: {}}".into(),
            fields: "spec.image: x, spec.nodeSelector: {a: b}, spec.interface: eth0, spec.interfaceFromIP: 192.0.2.9, spec.passwordAuth.secretRef.name: \
                x, spec.verbatimConfig: {a: b}, spec.blacklistRouterIDs: [1], spec.unicastEnabled: true, spec.daemonsetAnnotations: {a: b}, \
                spec.daemonsetPodPriorityClassName: x, spec.daemonsetPodAnnotations: {a: b}".into(),
        },
    ]
}

/// Annotations of Services by converter.
const ANNOTATIONS: [(&str, Source); 5] = [
    (
        "metallb.io/loadBalancerIPs metallb.universe.tf/loadBalancerIPs metallb.io/address-pool metallb.universe.tf/address-pool \
         metallb.io/allow-shared-ip metallb.universe.tf/allow-shared-ip metallb.io/new",
        Source::Metallb,
    ),
    (
        "kube-vip.io/loadbalancerIPs kube-vip.io/serviceInterface kube-vip.io/egress kube-vip.io/loadbalancerHostname kube-vip.io/ignore \
         kube-vip.io/new",
        Source::KubeVip { vip: false },
    ),
    (
        "purelb.io/addresses purelb.io/service-group purelb.io/allow-shared-ip purelb.io/multi-pool purelb.io/node-affinity \
         purelb.io/allow-local purelb.io/new",
        Source::Purelb,
    ),
    (
        "lbipam.cilium.io/ips io.cilium/lb-ipam-ips lbipam.cilium.io/sharing-key io.cilium/lb-ipam-sharing-key \
         lbipam.cilium.io/sharing-cross-namespace io.cilium/lb-ipam-sharing-cross-namespace lbipam.cilium.io/new",
        Source::Cilium,
    ),
    (
        "keepalived-operator.redhat-cop.io/spreadvips keepalived-operator.redhat-cop.io/verbatimconfig",
        Source::Keepalived { vip_port: Vec::new() },
    ),
];

/// Sets the field at a path with numbers for items.
fn set(object: &mut Value, path: &str, sample: Value) {
    let mut at = object;
    for name in path.split('.') {
        at = match name.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[name],
        };
    }
    *at = sample;
}

/// The variables of a container stand as a map above.
fn finished(mut object: Value) -> Value {
    if let Some(environment) = object.pointer_mut("/spec/template/spec/containers/0/env") {
        let variables = environment
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }));
        *environment = variables.collect();
    }
    object
}

fn converted(kind: &Kind, change: impl FnOnce(&mut Value)) -> Conversion {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&kind.base).unwrap();
    let mut last = objects.pop().unwrap();
    change(&mut last);
    objects.push(finished(last));
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    kind.source.convert(&text.join("\n---\n"))
}

/// The fields of a table, with their values.
fn fields(kind: &Kind) -> Vec<(String, Value)> {
    let table: serde_json::Map<String, Value> =
        serde_saphyr::from_str(&format!("{{{}}}", kind.fields)).unwrap();
    table.into_iter().collect()
}

#[test]
fn every_known_field_of_every_kind_changes_the_output_or_standard_error() {
    let mut lost = Vec::new();
    for kind in kinds() {
        let base = converted(&kind, |_| {});
        for (path, sample) in fields(&kind) {
            if converted(&kind, |object| set(object, &path, sample.clone())) == base {
                lost.push(format!("{:?}: {path}: {sample}", kind.source));
            }
        }
    }
    assert_eq!(lost, [""; 0]);
}

#[test]
fn every_annotation_of_a_service_is_named() {
    for (annotations, source) in ANNOTATIONS {
        for key in annotations.split_whitespace() {
            let group = "keepalived-operator.redhat-cop.io/keepalivedgroup";
            let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s", "annotations": { key: "x", group: "g" } },
                "spec": { "type": "LoadBalancer", "externalIPs": ["192.0.2.1"] } });
            let own = json!({ "apiVersion": "redhatcop.redhat.io/v1alpha1", "kind": "KeepalivedGroup", "metadata": { "name": "g" } });
            let said = source.convert(&format!("{service}\n---\n{own}")).warnings;
            assert!(said.iter().any(|line| line.contains(key)), "{key}: {said:?}");
        }
    }
}

const CONF: &str = "vrrp_script chk {\n script \"/bin/check\"\n #script\n}\n#top\nvrrp_instance a {\n priority 150\n virtual_ipaddress {\n  192.0.2.1 #address\n }\n \
                    track_script {\n  chk #track\n }\n #instance\n}\n";

/// Lines that a place of [`CONF`] can have.
const LINES: [(&str, &str); 5] = [
    (
        "#top",
        "global_defs { router_id x }, vrrp_sync_group g { group { a } }, virtual_server 192.0.2.1 80 { lb_algo rr }, virtual_server_group g { 10.0.0.1 80 }, \
        static_routes { 10.0.0.0/8 via 192.0.2.9 }, static_ipaddress { 10.0.0.1 }, static_rules { from 10.0.0.1 table 1 }, vrrp_track_process p { process x }, \
        vrrp_track_file f { file /x }, track_file f { file /x }, bfd_instance b { neighbor_ip 10.0.0.1 }, garp_group { garp_interval 1 }, \
        vrrp_script other { script /bin/true }, linkbeat_interfaces { eth0 }, net_namespace x, unheard_of x",
    ),
    (
        "#instance",
        "state MASTER, interface eth1, virtual_router_id 51, priority 120, nopreempt, advert_int 3, preempt_delay 30, version 3, \
        authentication { auth_type PASS }, notify /x, notify_master /x, notify_backup /x, notify_fault /x, notify_stop /x, notify_deleted /x, \
        notify_master_rx_lower_pri /x, notify_priority_changes true, smtp_alert, virtual_routes { 10.0.0.0/8 via 192.0.2.9 }, virtual_rules { from \
        10.0.0.1 table 1 }, virtual_ipaddress_excluded { 192.0.2.7 }, use_vmac, use_vmac vrrp.51, vmac_xmit_base, vmac_addr 00:00:5e:00:01:01, use_ipvlan, \
        track_interface { eth9 }, track_interface { eth9 weight -5 }, track_process { p }, track_file { f }, track_bfd { b }, track_script { gone }, \
        garp_master_delay 1, garp_master_repeat 1, garp_master_refresh 1, garp_master_refresh_repeat 1, garp_lower_prio_delay 1, \
        garp_lower_prio_repeat 1, garp_interval 1, gna_interval 1, unicast_src_ip 192.0.2.3, unicast_peer { 192.0.2.4 }, unicast_peer { 2001:db8::4 }, \
        mcast_src_ip 192.0.2.3, mcast_dst_ip 224.0.0.19, unicast_ttl 3, check_unicast_src, unicast_fault_no_peer, dont_track_primary, \
        track_src_ip, lvs_sync_daemon_interface eth0, strict_mode on, debug 3, native_ipv6, accept, no_accept, skip_check_adv_addr, \
        promote_secondaries, linkbeat_use_polling, lower_prio_no_advert, higher_prio_send_advert, old_unicast_checksum, unheard_of x",
    ),
    ("#script", "interval 3, timeout 0.5, rise 2, fall 3, weight -20, user nobody, init_fail, unheard_of x"),
    ("#track", "weight -30, weight 20"),
    ("#address", "dev eth4, label eth0:1, brd 192.0.2.255, scope global, nodad, no_track"),
];

#[test]
fn every_keyword_of_keepalived_changes_the_output_or_standard_error() {
    let mut lost = Vec::new();
    for ports in [vec![], vec![6443]] {
        let source = Source::Keepalived { vip_port: ports.clone() };
        for conf in [CONF.to_owned(), CONF.replace("192.0.2.1 ", "2001:db8::1 ")] {
            let base = source.convert(&conf);
            for (place, lines) in LINES {
                for line in lines.split(", ").map(str::trim) {
                    if source.convert(&conf.replace(place, line)) == base {
                        lost.push(format!("{ports:?}: {line}"));
                    }
                }
            }
        }
    }
    assert_eq!(lost, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 0.87 ms each

    #[test]
    fn every_unknown_field_is_named_with_its_path(name in "[a-z]{3,8}X", kind in 0usize..19) {
        let kinds = kinds();
        let kind = &kinds[kind % kinds.len()];
        let is_spec = serde_saphyr::from_multiple::<Value>(&kind.base).unwrap().last().unwrap()["spec"].is_object();
        if is_spec && !kind.base.contains("kube-vip") && !kind.base.contains("HelmRelease") {
            let said = converted(kind, |object| set(object, &format!("spec.{name}"), json!({ "a": 1 }))).warnings;
            prop_assert!(said.iter().any(|line| line.contains(&format!("spec.{name}"))), "{said:?}");
        }
    }
}
