//! The settings as flags: they are the same for several addresses, but for peers and backends, which are those of their family.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::settings::{
    self, BalanceDraft, BfdDraft, BgpDraft, CheckDraft, CommandDraft, Draft, Given, GrpcDraft, HttpDraft,
    PeerDraft, Settings, SettingsError, TcpDraft, Text, VipDraft,
};

#[cfg(test)]
mod tests;

/// Flags that give the settings, or name their file.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingsFlags {
    /// File of the settings (YAML), instead of the flags below
    #[arg(long, value_name = "FILE", conflicts_with = "VipFlags")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) vips: VipFlags,
}

/// The settings themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag by itself")]
pub(crate) struct VipFlags {
    /// Virtual IP; repeatable: further ones have the same settings
    #[arg(long = "address", value_name = "ADDRESS")]
    pub(super) addresses: Vec<String>,
    /// Protocol that announces the address, vrrp or bgp; repeatable [default: vrrp]
    #[arg(long = "protocol", value_name = "vrrp|bgp")]
    pub(super) protocols: Vec<String>,
    /// Own autonomous system, with --protocol bgp
    #[arg(long, value_name = "ASN")]
    pub(super) bgp_asn: Option<String>,
    /// BGP router; repeatable: ADDRESS:ASN, or external or internal as the AS. The address gateway stands for the gateways of the
    /// IPv4 default routes, gateway6 for those of IPv6
    #[arg(long = "bgp-peer", value_name = "ADDRESS:ASN")]
    pub(super) bgp_peers: Vec<String>,
    /// File of the password (TCP MD5) of the BGP routers
    #[arg(long, value_name = "FILE")]
    pub(super) bgp_password_file: Option<String>,
    /// Detect BGP routers that are dead by BFD: three packets of 300 ms
    #[arg(long)]
    pub(super) bgp_bfd: bool,
    /// Interface that announces the address [default: the interface whose network has it]
    #[arg(long, value_name = "NAME")]
    pub(super) interface: Option<String>,
    /// TCP port to serve at the address; repeatable [default: the ports that the checks ask on this host]
    #[arg(long = "port", value_name = "PORT")]
    pub(super) ports: Vec<String>,
    /// Check that must pass on this node; repeatable: http://…, https://…, tcp://HOST:PORT, grpc://HOST:PORT[/SERVICE] or
    /// exec:/PROGRAM ARGUMENTS
    #[arg(long = "check", value_name = "URL")]
    pub(super) checks: Vec<String>,
    /// Milliseconds from one check to the next, 50 to 60000 [default: 500]
    #[arg(long, value_name = "MS")]
    pub(super) check_interval_ms: Option<String>,
    /// Milliseconds that an answer may take, at most the interval [default: 500]
    #[arg(long, value_name = "MS")]
    pub(super) check_timeout_ms: Option<String>,
    /// Number of successes in a row that end the failure of a check [default: 2]
    #[arg(long, value_name = "TIMES")]
    pub(super) rise: Option<String>,
    /// Number of failures in a row that make a check fail [default: 3]
    #[arg(long, value_name = "TIMES")]
    pub(super) fall: Option<String>,
    /// Status codes with which http and https checks pass, as 200,401 [default: 200]
    #[arg(long, value_name = "CODES")]
    pub(super) check_expect: Option<String>,
    /// Certificates (PEM) of the authority that must have signed the server's in https checks [default: accept any certificate]
    #[arg(long, value_name = "FILE")]
    pub(super) check_ca: Option<String>,
    /// Name that the server's certificate must contain in https checks [default: the host that the check asks]
    #[arg(long, value_name = "NAME")]
    pub(super) check_server_name: Option<String>,
    /// SHA-256 of the certificate that the server must have in https checks
    #[arg(long, value_name = "HEX")]
    pub(super) check_certificate_sha256: Option<String>,
    /// Node to send adverts to by unicast; repeatable [default: multicast]
    #[arg(long = "peer", value_name = "ADDRESS")]
    pub(super) peers: Vec<String>,
    /// Send adverts by multicast, too, if there are peers
    #[arg(long)]
    pub(super) multicast: bool,
    /// Virtual router ID, 1 to 255 [default: one that no other router uses]
    #[arg(long, value_name = "VRID")]
    pub(super) vrid: Option<String>,
    /// Priority while all checks pass, 101 to 200 [default: 200]
    #[arg(long, value_name = "PRIORITY")]
    pub(super) priority: Option<String>,
    /// Take the address over from a fit node of lower priority
    #[arg(long)]
    pub(super) preempt: bool,
    /// Milliseconds between adverts, 10 to 40950 in steps of 10 [default: 100]
    #[arg(long, value_name = "MS")]
    pub(super) advert_interval_ms: Option<String>,
    /// Folder of the keys that sign adverts; each file holds one key, and its name is the key's id
    #[arg(long, value_name = "FOLDER")]
    pub(super) keys_dir: Option<String>,
    /// Add the address to the interface, for programs that must listen on it
    #[arg(long)]
    pub(super) bind: bool,
    /// Backend of balanced connections; repeatable [default: only this node]
    #[arg(long = "backend", value_name = "ADDRESS:PORT")]
    pub(super) backends: Vec<String>,
    /// Source address of connections that backends see: masquerade (the address of the node that has the virtual IP) or keep (the
    /// client's) [default: masquerade]
    #[arg(long, value_name = "masquerade|keep")]
    pub(super) source: Option<String>,
}

impl SettingsFlags {
    /// Returns the settings of the file that they name, or those that they give.
    ///
    /// # Errors
    /// The file cannot be read, or the first mistake in it or in the flags.
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        match &self.config {
            Some(file) => settings::read(file),
            None => self.vips.settings(),
        }
    }

    /// As arguments.
    pub(super) fn to_args(&self) -> Vec<String> {
        match &self.config {
            Some(file) => vec![format!("--config={}", file.display())],
            None => self.vips.to_args(),
        }
    }
}

impl VipFlags {
    fn settings(&self) -> Result<Settings, SettingsError> {
        settings::of_flags(&self.draft()?)
    }

    fn draft(&self) -> Result<Draft, SettingsError> {
        let checks = self.checks.iter().map(|url| self.check(url).map(Given::by_flag));
        let checks = checks.collect::<Result<Vec<_>, _>>()?;
        let asks_https = checks.iter().any(|check| check.value.https.is_some());
        let asks_http = asks_https || checks.iter().any(|check| check.value.http.is_some());
        for (flag, value, is_used, kinds) in [
            ("--check-expect", &self.check_expect, asks_http, "http:// or https://"),
            ("--check-ca", &self.check_ca, asks_https, "https://"),
            ("--check-server-name", &self.check_server_name, asks_https, "https://"),
            ("--check-certificate-sha256", &self.check_certificate_sha256, asks_https, "https://"),
        ] {
            if value.is_some() && !is_used {
                let problem = format!("no --check begins with {kinds}");
                return Err(SettingsError::by_flag(flag, &problem, "leave it out, or give such a --check"));
            }
        }
        if self.source.is_some() && self.backends.is_empty() {
            let problem = "nothing is balanced, as there is no --backend";
            return Err(SettingsError::by_flag("--source", problem, "leave it out, or name the backends"));
        }
        let source = match self.source.as_deref() {
            None => None,
            Some("masquerade") => Some("Masquerade"),
            Some("keep") => Some("Keep"),
            Some(other) => {
                let problem = format!("{other} is neither masquerade nor keep");
                return Err(SettingsError::by_flag("--source", &problem, "use one of the two"));
            }
        };
        let families = self.families();
        self.refuse_of_no_family("--peer", &self.peers, families, |text| text.parse().ok())?;
        let ip = |text: &str| text.parse().ok().map(|backend: SocketAddr| backend.ip());
        self.refuse_of_no_family("--backend", &self.backends, families, ip)?;
        let vips = self.addresses.iter().map(|address| Given::by_flag(self.vip(address, &checks, source)));
        let vips = Some(Given::by_flag(vips.collect()));
        Ok(Draft { keys_dir: text(self.keys_dir.as_ref()), bgp: self.bgp()?, vips })
    }

    fn bgp(&self) -> Result<Option<Given<BgpDraft>>, SettingsError> {
        let is_given = self.bgp_asn.is_some()
            || !self.bgp_peers.is_empty()
            || self.bgp_password_file.is_some()
            || self.bgp_bfd;
        if !is_given {
            return Ok(None);
        }
        let peers = self.bgp_peers.iter().map(|peer| self.bgp_peer(peer).map(Given::by_flag));
        let peers = Some(Given::by_flag(peers.collect::<Result<_, _>>()?));
        Ok(Some(Given::by_flag(BgpDraft { local_asn: text(self.bgp_asn.as_ref()), router_id: None, peers })))
    }

    fn bgp_peer(&self, peer: &str) -> Result<PeerDraft, SettingsError> {
        let Some((host, asn)) = peer.rsplit_once(':') else {
            let problem = format!("{peer:?} has no AS");
            let remedy = "write it as 192.0.2.1:64500, [2001:db8::1]:64500 or gateway:external";
            return Err(SettingsError::by_flag("--bgp-peer", &problem, remedy));
        };
        let given = |value: &str| Some(Given::by_flag(value.to_owned()));
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let (address, gateway) = match host {
            "gateway" => (None, given("IPv4")),
            "gateway6" => (None, given("IPv6")),
            _ => (given(bare.unwrap_or(host)), None),
        };
        let (peer_asn, dynamic_asn) = match asn {
            "external" => (None, given("External")),
            "internal" => (None, given("Internal")),
            _ => (given(asn), None),
        };
        let password_file = text(self.bgp_password_file.as_ref());
        let bfd = self.bgp_bfd.then(|| Given::by_flag(BfdDraft::default()));
        Ok(PeerDraft { address, gateway, peer_asn, dynamic_asn, password_file, bfd, ..PeerDraft::default() })
    }

    fn vip(&self, address: &str, checks: &[Given<CheckDraft>], source: Option<&str>) -> VipDraft {
        let is_v4 = address.parse().ok().map(|address: IpAddr| address.is_ipv4());
        // The validation of the settings reports a text that is no address.
        let fits =
            |other: Option<IpAddr>| other.is_none_or(|other| is_v4.is_none_or(|v4| v4 == other.is_ipv4()));
        let peers = self.peers.iter().filter(|peer| fits(peer.parse().ok()));
        let backend = |text: &&String| fits(text.parse().ok().map(|backend: SocketAddr| backend.ip()));
        let backends = self.backends.iter().filter(backend);
        let backends = list(backends).map(|backends| {
            let source = source.map(|source| Given::by_flag(source.to_owned()));
            Given::by_flag(BalanceDraft { backends: Some(backends), source, check: None })
        });
        let set = |flag: bool| flag.then(|| Given::by_flag("true".to_owned()));
        VipDraft {
            address: Some(Given::by_flag(address.to_owned())),
            protocols: list(self.protocols.iter()),
            interface: text(self.interface.as_ref()),
            ports: list(self.ports.iter()),
            vrid: text(self.vrid.as_ref()),
            priority: text(self.priority.as_ref()),
            preempt: set(self.preempt),
            advert_interval_ms: text(self.advert_interval_ms.as_ref()),
            peers: list(peers),
            multicast: set(self.multicast),
            bind: set(self.bind),
            checks: Some(checks.to_vec()),
            balance: backends,
            ..VipDraft::default()
        }
    }

    fn check(&self, url: &str) -> Result<CheckDraft, SettingsError> {
        let given = |value: &str| Some(Given::by_flag(value.to_owned()));
        let mut check = CheckDraft {
            interval_ms: text(self.check_interval_ms.as_ref()),
            timeout_ms: text(self.check_timeout_ms.as_ref()),
            rise: text(self.rise.as_ref()),
            fall: text(self.fall.as_ref()),
            ..CheckDraft::default()
        };
        let expect = self.check_expect.as_ref().map(|codes| {
            let codes = codes.split(',').map(|code| Given::by_flag(code.trim().to_owned()));
            Given::by_flag(codes.collect::<Vec<Text>>())
        });
        if url.starts_with("http://") {
            check.http = Some(Given::by_flag(HttpDraft { url: given(url), expect, ..HttpDraft::default() }));
        } else if url.starts_with("https://") {
            let https = HttpDraft {
                url: given(url),
                expect,
                ca_file: text(self.check_ca.as_ref()),
                server_name: text(self.check_server_name.as_ref()),
                certificate_sha256: text(self.check_certificate_sha256.as_ref()),
                ..HttpDraft::default()
            };
            check.https = Some(Given::by_flag(https));
        } else if let Some(address) = url.strip_prefix("tcp://") {
            check.tcp = Some(Given::by_flag(TcpDraft { address: given(address) }));
        } else if let Some(rest) = url.strip_prefix("grpc://") {
            let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
            check.grpc = Some(Given::by_flag(GrpcDraft { address: given(address), service: given(service) }));
        } else if let Some(words) = url.strip_prefix("exec:") {
            let words = words.split_whitespace().map(|word| Given::by_flag(word.to_owned())).collect();
            check.command = Some(Given::by_flag(CommandDraft { command: Some(Given::by_flag(words)) }));
        } else {
            let problem = format!("{url:?} is not a check");
            let remedy = "begin it with http://, https://, tcp://, grpc:// or exec:/";
            return Err(SettingsError::by_flag("--check", &problem, remedy));
        }
        Ok(check)
    }

    /// Returns the families of the addresses: (IPv4, IPv6).
    fn families(&self) -> (bool, bool) {
        let of = |v4: bool| {
            let address = |text: &String| text.parse().is_ok_and(|address: IpAddr| address.is_ipv4() == v4);
            self.addresses.iter().any(address)
        };
        (of(true), of(false))
    }

    /// Refuses a value of a family that no virtual IP has: it would be left out silently.
    fn refuse_of_no_family(
        &self,
        flag: &str,
        values: &[String],
        (v4, v6): (bool, bool),
        address: impl Fn(&str) -> Option<IpAddr>,
    ) -> Result<(), SettingsError> {
        if self.addresses.is_empty() || !(v4 || v6) {
            return Ok(());
        }
        let is_lost = |value: &&String| address(value).is_some_and(|ip| if ip.is_ipv4() { !v4 } else { !v6 });
        match values.iter().find(is_lost) {
            None => Ok(()),
            Some(value) => {
                let (own, other) = if v4 { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
                let problem = format!("{value} is {own}, and no --address is {own}");
                let remedy = format!("give an {other} address here, or an {own} --address");
                Err(SettingsError::by_flag(flag, &problem, &remedy))
            }
        }
    }

    /// As arguments, from which the same flags are read.
    fn to_args(&self) -> Vec<String> {
        let Self {
            addresses,
            protocols,
            bgp_asn,
            bgp_peers,
            bgp_password_file,
            bgp_bfd,
            interface,
            ports,
            checks,
            check_interval_ms,
            check_timeout_ms,
            rise,
            fall,
            check_expect,
            check_ca,
            check_server_name,
            check_certificate_sha256,
            peers,
            multicast,
            vrid,
            priority,
            preempt,
            advert_interval_ms,
            keys_dir,
            bind,
            backends,
            source,
        } = self;
        let many = |flag: &str, values: &[String]| {
            values.iter().map(|value| format!("--{flag}={value}")).collect::<Vec<_>>()
        };
        let one = |flag: &str, value: &Option<String>| many(flag, value.as_slice());
        let set =
            |flag: &str, is_set: &bool| is_set.then(|| format!("--{flag}")).into_iter().collect::<Vec<_>>();
        [
            many("address", addresses),
            many("protocol", protocols),
            one("bgp-asn", bgp_asn),
            many("bgp-peer", bgp_peers),
            one("bgp-password-file", bgp_password_file),
            set("bgp-bfd", bgp_bfd),
            one("interface", interface),
            many("port", ports),
            many("check", checks),
            one("check-interval-ms", check_interval_ms),
            one("check-timeout-ms", check_timeout_ms),
            one("rise", rise),
            one("fall", fall),
            one("check-expect", check_expect),
            one("check-ca", check_ca),
            one("check-server-name", check_server_name),
            one("check-certificate-sha256", check_certificate_sha256),
            many("peer", peers),
            set("multicast", multicast),
            one("vrid", vrid),
            one("priority", priority),
            set("preempt", preempt),
            one("advert-interval-ms", advert_interval_ms),
            one("keys-dir", keys_dir),
            set("bind", bind),
            many("backend", backends),
            one("source", source),
        ]
        .concat()
    }
}

fn text(value: Option<&String>) -> Option<Text> {
    value.map(|value| Given::by_flag(value.clone()))
}

fn list<'a>(values: impl Iterator<Item = &'a String>) -> Option<Given<Vec<Text>>> {
    let values: Vec<Text> = values.map(|value| Given::by_flag(value.clone())).collect();
    (!values.is_empty()).then(|| Given::by_flag(values))
}
