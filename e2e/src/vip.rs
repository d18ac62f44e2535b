//! `windlass vip` as a process on hosts of the lab, and keepalived in its place.

use std::{fs, net::IpAddr};

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;

use crate::{frr::Detection, keepalived::Keepalived, lab::Lab, rack_networks::NODES_ASN, tools};

/// Name of the process.
const VIP: &str = "vip";
/// URL that checks of the API servers request, on each node.
const READYZ: &str = "https://127.0.0.1:6443/readyz";
const VRID: u8 = 51;
/// Time between adverts of the holder of the VIP of the API servers.
const INTERVAL_MS: u32 = 100;

impl Lab {
    /// Starts `windlass vip` on a host with these flags beside `--socket`, one at a time there. On a node it dies with the node.
    pub fn start_vip(&self, host: &str, flags: &[&str]) -> anyhow::Result<()> {
        let binary = tools::windlass_binary()?.display().to_string();
        let socket = vip_socket(host);
        let mut command: Vec<String> = [&binary, VIP, "--socket", &socket].map(str::to_owned).into();
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        self.start_here(host, VIP, command)
    }

    /// Starts `windlass vip` for the API servers on a node of the control plane, with these flags beside the usual ones. `vip` is
    /// [`Self::api_vip`] or [`Self::api_vip_of_ipv6`].
    pub fn start_api_vip(&self, node: &str, vip: IpAddr, flags: &[&str]) -> anyhow::Result<()> {
        let (vip, ca, interval) = (vip.to_string(), self.pki.path("ca.crt"), INTERVAL_MS.to_string());
        let usual =
            ["--address", &vip, "--check", READYZ, "--check-ca", &ca, "--advert-interval-ms", &interval];
        self.start_vip(node, &[&usual[..], flags].concat())
    }

    /// Starts `windlass vip` for the API servers on a node of the control plane in a rack: it announces the VIP to its router by BGP. The
    /// hold time is so long that nothing waits for it, unless it is the detection. It checks once a second: where several labs share the
    /// processors, no check fails for lack of time.
    pub fn start_api_bgp(&self, node: &str, detection: Detection) -> anyhow::Result<()> {
        let detection = match detection {
            Detection::Bfd(ms) => format!(
                "holdTimeSeconds: 180, bfd: {{transmitIntervalMilliseconds: {ms}, receiveIntervalMilliseconds: {ms}}}"
            ),
            Detection::HoldTime(seconds) => format!("holdTimeSeconds: {seconds}"),
        };
        let (vip, ca) = (self.api_vip(), self.pki.path("ca.crt"));
        let config = format!(
            "bgp:
  localASN: {NODES_ASN}
  peers: [{{gateway: IPv4, dynamicASN: External, {detection}}}]
vips:
- address: {vip}
  protocols: [bgp]
  checks: [{{https: {{url: '{READYZ}', caFile: '{ca}'}}, intervalMs: 1000, timeoutMs: 1000}}]
"
        );
        let file = self.folder().join(format!("bgp-{node}.yaml"));
        fs::write(&file, config).with_context(|| format!("writing {}", file.display()))?;
        self.start_vip(node, &["--config", file.to_str().context("a path that is no UTF-8")?])
    }

    /// Ends the `windlass vip` of a host with SIGTERM (an orderly stop) or SIGKILL (a crash) and waits until it has ended.
    pub async fn stop_vip(&self, host: &str, signal: Signal) -> anyhow::Result<()> {
        self.end_process(host, VIP, signal).await
    }

    /// Starts the `windlass vip` of a host again that has ended, with the flags that it had.
    pub fn start_vip_again(&self, host: &str) -> anyhow::Result<()> {
        self.daemons.start_again(&self.sandbox, host, VIP)
    }

    /// Sends a signal, as SIGSTOP or SIGCONT, to the `windlass vip` of a host.
    pub fn signal_vip(&self, host: &str, signal: Signal) -> anyhow::Result<()> {
        self.signal_process(host, VIP, signal)
    }

    /// Returns the answer of `windlass vip` on a host, as at `/metrics`.
    pub async fn ask_vip(&self, host: &str, path: &str) -> anyhow::Result<String> {
        let binary = tools::windlass_binary()?.display().to_string();
        self.exec(host, &[&binary, "probe", path, "--socket", &vip_socket(host)]).await
    }

    /// Starts keepalived for the API servers on a node of the control plane: the script that Kubernetes' own guide has for it, each second,
    /// which is keepalived's shortest time, and adverts as often as Windlass' are.
    pub fn start_api_keepalived(&self, node: &str) -> anyhow::Result<()> {
        let nth = self.control_plane_nodes().position(|one| one.name() == node);
        let nth = nth.and_then(|nth| u8::try_from(nth).ok());
        let nth = nth.with_context(|| format!("{node} is no node of the control plane"))?;
        let IpAddr::V4(_) = self.api_vip() else {
            anyhow::bail!("the VIP of the API servers is one of IPv4")
        };
        ensure!(nth < 50, "{node} has no priority");
        let router =
            Keepalived { vrid: VRID, priority: 150 - nth, interval_ms: INTERVAL_MS, address: self.api_vip() };
        self.start_keepalived_checking(node, router, READYZ)
    }
}

/// Socket at which `windlass vip` on a host answers its probes.
fn vip_socket(host: &str) -> String {
    format!("/run/lab/vip-{host}.sock")
}
