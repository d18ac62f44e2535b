//! The fields as they are written, of whatever value. Flags make the same drafts.

use serde::Deserialize;

use super::given::{Given, Text};

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct Draft {
    pub(in crate::vip) keys_dir: Option<Text>,
    pub(in crate::vip) bgp: Option<Given<BgpDraft>>,
    pub(in crate::vip) vips: Option<Given<Vec<Given<VipDraft>>>>,
}

/// An item of `vips`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct VipDraft {
    pub(in crate::vip) address: Option<Text>,
    pub(in crate::vip) protocols: Option<Given<Vec<Text>>>,
    pub(in crate::vip) interface: Option<Text>,
    pub(in crate::vip) ports: Option<Given<Vec<Text>>>,
    pub(in crate::vip) vrid: Option<Text>,
    pub(in crate::vip) priority: Option<Text>,
    pub(in crate::vip) preempt: Option<Text>,
    pub(in crate::vip) advert_interval_ms: Option<Text>,
    pub(in crate::vip) peers: Option<Given<Vec<Text>>>,
    pub(in crate::vip) multicast: Option<Text>,
    pub(in crate::vip) bind: Option<Text>,
    pub(in crate::vip) checks: Option<Vec<Given<CheckDraft>>>,
    pub(in crate::vip) balance: Option<Given<BalanceDraft>>,
    pub(in crate::vip) communities: Option<Given<Vec<Text>>>,
    pub(in crate::vip) local_preference: Option<Text>,
    pub(in crate::vip) med: Option<Text>,
    pub(in crate::vip) prepend: Option<Text>,
}

/// An item of `checks`, and `balance.check`, which has no `command` and no `weight`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct CheckDraft {
    pub(in crate::vip) http: Option<Given<HttpDraft>>,
    pub(in crate::vip) https: Option<Given<HttpDraft>>,
    pub(in crate::vip) tcp: Option<Given<TcpDraft>>,
    pub(in crate::vip) grpc: Option<Given<GrpcDraft>>,
    pub(in crate::vip) command: Option<Given<CommandDraft>>,
    pub(in crate::vip) interval_ms: Option<Text>,
    pub(in crate::vip) timeout_ms: Option<Text>,
    pub(in crate::vip) rise: Option<Text>,
    pub(in crate::vip) fall: Option<Text>,
    pub(in crate::vip) weight: Option<Text>,
}

/// `http` and `https`: a check of this node has `url`, one of backends `path`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct HttpDraft {
    pub(in crate::vip) url: Option<Text>,
    pub(in crate::vip) path: Option<Text>,
    pub(in crate::vip) expect: Option<Given<Vec<Text>>>,
    pub(in crate::vip) host: Option<Text>,
    pub(in crate::vip) server_name: Option<Text>,
    pub(in crate::vip) ca_file: Option<Text>,
    pub(in crate::vip) certificate_sha256: Option<Text>,
}

/// `tcp`: a check of backends has no address.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct TcpDraft {
    pub(in crate::vip) address: Option<Text>,
}

/// `grpc`: a check of backends has no address.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct GrpcDraft {
    pub(in crate::vip) address: Option<Text>,
    pub(in crate::vip) service: Option<Text>,
}

/// `command`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct CommandDraft {
    pub(in crate::vip) command: Option<Given<Vec<Text>>>,
}

/// `balance`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct BalanceDraft {
    pub(in crate::vip) backends: Option<Given<Vec<Text>>>,
    pub(in crate::vip) source: Option<Text>,
    pub(in crate::vip) check: Option<Given<CheckDraft>>,
}

/// `bgp`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct BgpDraft {
    #[serde(rename = "localASN")]
    pub(in crate::vip) local_asn: Option<Text>,
    #[serde(rename = "routerID")]
    pub(in crate::vip) router_id: Option<Text>,
    pub(in crate::vip) peers: Option<Given<Vec<Given<PeerDraft>>>>,
}

/// An item of `bgp.peers`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct PeerDraft {
    pub(in crate::vip) address: Option<Text>,
    pub(in crate::vip) gateway: Option<Text>,
    #[serde(rename = "peerASN")]
    pub(in crate::vip) peer_asn: Option<Text>,
    #[serde(rename = "dynamicASN")]
    pub(in crate::vip) dynamic_asn: Option<Text>,
    pub(in crate::vip) interface: Option<Text>,
    pub(in crate::vip) port: Option<Text>,
    pub(in crate::vip) source_address: Option<Text>,
    pub(in crate::vip) hold_time_seconds: Option<Text>,
    pub(in crate::vip) keepalive_seconds: Option<Text>,
    pub(in crate::vip) password_file: Option<Text>,
    pub(in crate::vip) ttl_security_hops: Option<Text>,
    pub(in crate::vip) bfd: Option<Given<BfdDraft>>,
    pub(in crate::vip) next_hops: Option<Given<NextHopsDraft>>,
}

/// `bgp.peers[].bfd`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct BfdDraft {
    pub(in crate::vip) transmit_interval_milliseconds: Option<Text>,
    pub(in crate::vip) receive_interval_milliseconds: Option<Text>,
    pub(in crate::vip) detect_multiplier: Option<Text>,
    #[serde(rename = "minimumTTL")]
    pub(in crate::vip) minimum_ttl: Option<Text>,
}

/// `bgp.peers[].nextHops`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::vip) struct NextHopsDraft {
    pub(in crate::vip) ipv4: Option<Text>,
    pub(in crate::vip) ipv6: Option<Text>,
}
