use super::*;

#[test]
fn the_mark_is_that_of_the_section_of_the_mode_in_either_spelling() {
    let now = r#"{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","mode":"nftables",
        "iptables":{"masqueradeBit":14,"masqueradeAll":false},"nftables":{"masqueradeBit":15}}}"#;
    let before = r#"{"kubeproxy.config.k8s.io":{"Mode":"iptables","IPTables":{"MasqueradeBit":20},"NFTables":{"MasqueradeBit":14}}}"#;
    let cilium = ServiceProxy::Programs { by: "Cilium", interface: "cilium_host" };
    let rows = [
        (now, ServiceProxy::Nftables, Some(0x8000)),
        (now, ServiceProxy::Iptables, Some(0x4000)),
        (before, ServiceProxy::Iptables, Some(0x10_0000)),
        (before, ServiceProxy::Nftables, Some(0x4000)),
        (now, ServiceProxy::Unknown, None),
        (now, ServiceProxy::Ipvs, None),
        (now, cilium, None),
        ("", ServiceProxy::Nftables, None),
        ("[]", ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{}}}"#, ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{"masqueradeBit":null}}}"#, ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{"masqueradeBit":32}}}"#, ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{"masqueradeBit":-1}}}"#, ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{"masqueradeBit":18446744073709551615}}}"#, ServiceProxy::Nftables, None),
        (r#"{"a":{"nftables":{"masqueradeBit":31}}}"#, ServiceProxy::Nftables, Some(1 << 31)),
    ];
    for (config, proxy, expected) in rows {
        assert_eq!(mark_in(config, proxy), expected, "{proxy:?} {config}");
    }
}

#[test]
fn what_the_admin_says_is_the_mark_of_that_bit() {
    let rows = [(None, None), (Some(14), Some(0x4000)), (Some(31), Some(1 << 31)), (Some(32), None)];
    for (bit, expected) in rows {
        assert_eq!(MasqueradeMark::given(bit).get(), expected, "{bit:?}");
    }
}
