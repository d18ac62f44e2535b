//! Platforms of a manifest: its place, further steps, and default checks.

use std::net::IpAddr;
use std::path::Path;

use clap::ValueEnum;

use super::super::flags::SettingsFlags;
use super::super::settings::Settings;

/// The API server of this node, where all three have it.
const API_SERVER: &str = "https://127.0.0.1:6443/readyz";

/// Platform that a manifest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    /// A cluster of kubeadm: a static pod
    Kubeadm,
    /// K3s: a static pod
    K3s,
    /// RKE2: a static pod
    Rke2,
    /// Any kubelet: a static pod without default checks
    Kubelet,
    /// systemd: a unit without default checks
    Systemd,
}

impl Platform {
    /// These flags, with the API server to be asked where they ask nothing.
    pub(super) fn with_defaults(self, flags: &SettingsFlags) -> SettingsFlags {
        let mut flags = flags.clone();
        let vips = &mut flags.vips;
        if flags.config.is_some() || !vips.checks.is_empty() {
            return flags;
        }
        let (asks, is_open, ports): (bool, bool, &[&str]) = match self {
            Self::Kubeadm => (true, true, &[]),
            // They let nobody ask anonymously, and answer 401 then.
            Self::K3s => (true, false, &[]),
            // Nodes join at 9345.
            Self::Rke2 => (true, false, &["6443", "9345"]),
            Self::Kubelet | Self::Systemd => (false, true, &[]),
        };
        if asks {
            vips.checks.push(API_SERVER.to_owned());
            if !is_open {
                vips.check_expect.get_or_insert_with(|| "200,401".to_owned());
            }
            if vips.check_ca.is_some() {
                // The certificates of all three are for that name, and kubeadm's is not for 127.0.0.1.
                vips.check_server_name.get_or_insert_with(|| "kubernetes".to_owned());
            }
        }
        if vips.ports.is_empty() && vips.backends.is_empty() {
            vips.ports.extend(ports.iter().map(|port| (*port).to_owned()));
        }
        flags
    }

    /// The comments ahead: what it is, where it goes, what else is to be done.
    pub(super) fn head(self, settings: &Settings, socket: &Path) -> String {
        let addresses: Vec<IpAddr> = settings.vips.iter().map(|vip| vip.address).collect();
        let all = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        let port = settings.vips.first().and_then(|vip| vip.ports.first()).copied().unwrap_or_default();
        let first = addresses.first().map(|address| url_host(*address)).unwrap_or_default();
        let mut lines =
            vec![format!("Windlass holds {all} on the nodes that run this, without the API server.")];
        lines.extend(match self {
            Self::Kubeadm => vec![
                "Put it into /etc/kubernetes/manifests/windlass-vip.yaml of each control-plane node: of the first before".to_owned(),
                format!("`kubeadm init --control-plane-endpoint {first}:{port} --upload-certs`, of the others after"),
                "`kubeadm join --control-plane`, which requires that folder to be empty.".to_owned(),
            ],
            Self::K3s => vec![
                "Put it into /var/lib/rancher/k3s/agent/pod-manifests/windlass-vip.yaml of each server.".to_owned(),
                format!("In /etc/rancher/k3s/config.yaml of each: `tls-san: [{all}]`;"),
                format!("of all nodes that join later, agents too: `server: https://{first}:{port}`."),
                ANONYMOUS.to_owned(),
            ],
            Self::Rke2 => vec![
                "Put it into /var/lib/rancher/rke2/agent/pod-manifests/windlass-vip.yaml of each server.".to_owned(),
                format!("In /etc/rancher/rke2/config.yaml of each: `tls-san: [{all}]`;"),
                format!("of all nodes that join later, agents too: `server: https://{first}:9345`."),
                ANONYMOUS.to_owned(),
            ],
            Self::Kubelet => vec![
                "Put it into the kubelet's folder of static pods (staticPodPath, mostly /etc/kubernetes/manifests), as".to_owned(),
                "windlass-vip.yaml, on each node that is to have the address.".to_owned(),
            ],
            Self::Systemd => vec![
                "Put it into /etc/systemd/system/windlass-vip.service and the program into /usr/local/bin/windlass, on each".to_owned(),
                "machine that is to have the address; then `systemctl daemon-reload && systemctl enable --now windlass-vip`.".to_owned(),
                format!("`windlass probe --socket {} /readyz` reports whether it is ready.", socket.display()),
            ],
        });
        lines.into_iter().fold(String::new(), |head, line| head + "# " + &line + "\n")
    }
}

const ANONYMOUS: &str = "The API server refuses anonymous requests there: a 401 shows that it answers. With \
    `kube-apiserver-arg: [anonymous-auth=true]`\n# it reports whether it is ready: remove --check-expect below then.";

fn url_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}
