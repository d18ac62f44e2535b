//! `windlass convert`: pools of other load balancers as pools of Windlass, and how they were announced as Announcements.
//! Text in, text out; nothing is asked of a cluster. Each field of the input is converted or reported: [`fields::Object`] records which
//! fields were read, and the writer reports the rest.
//!
//! | file | concept |
//! |---|---|
//! | `input` | YAML documents, lists and objects; one bad document stops no other |
//! | `objects` | the frame of all sources: each object is read, reported, or of another program |
//! | `fields` | reading a field of an object, or saying why it cannot be read |
//! | `addresses` | ranges of addresses as a `VirtualIPPool` takes them |
//! | `selectors` | label selectors as `VirtualIPPool`s and Announcements take them |
//! | `interfaces`, `expressions` | names of interfaces, and regular expressions of them |
//! | `write` | what is printed: pools without an address twice, Announcements; what is reported, and at which place |
//! | `services` | what Services ask for by annotations of others |
//! | `metallb` | MetalLB's objects; `pools`, `announcements`: what becomes of them |
//! | `kube_vip`, `purelb`, `cilium`, `keepalived` | the others, each from what it has to what becomes of it |

mod addresses;
mod announcements;
mod cilium;
mod expressions;
mod fields;
mod input;
mod interfaces;
mod keepalived;
mod kube_vip;
mod metallb;
mod objects;
mod pools;
mod purelb;
mod selectors;
mod services;
mod write;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;

#[cfg(test)]
mod tests;

/// The program whose pools are read.
#[derive(Debug, Clone, Subcommand)]
pub enum Source {
    /// Reads MetalLB's objects or its ConfigMap (0.12 and older), and Services; prints VirtualIPPools and Announcements
    Metallb,
    /// Reads the ConfigMap kubevip of kube-vip's cloud provider, kube-vip's pods, and Services; prints VirtualIPPools and Announcements
    KubeVip {
        /// Print settings of `windlass vip` for the control plane address of kube-vip's pods, instead of VirtualIPPools
        #[arg(long)]
        vip: bool,
    },
    /// Reads PureLB's ServiceGroups and LBNodeAgents, and Services; prints VirtualIPPools and Announcements
    Purelb,
    /// Reads Cilium's CiliumLoadBalancerIPPools and CiliumL2AnnouncementPolicies, and Services; prints VirtualIPPools and Announcements
    Cilium,
    /// Reads keepalived.conf, ConfigMaps that contain it, or keepalived-operator's KeepalivedGroups with their Services; prints
    /// VirtualIPPools and Announcements
    Keepalived {
        /// Print settings of `windlass vip` for these TCP ports of programs on the hosts, such as the API server, instead of VirtualIPPools
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        vip_port: Vec<u16>,
    },
}

impl Source {
    /// Converts everything in `text`.
    fn convert(&self, text: &str) -> Conversion {
        match self {
            Self::Metallb => pools::convert(text),
            Self::KubeVip { vip } => kube_vip::convert(text, *vip),
            Self::Purelb => purelb::convert(text),
            Self::Cilium => cilium::convert(text),
            Self::Keepalived { vip_port } => keepalived::convert(text, vip_port),
        }
    }

    /// Returns the name of its input, with the command that prints it.
    fn input(&self) -> &'static str {
        match self {
            Self::Metallb => {
                "IPAddressPools of MetalLB (or the ConfigMap of 0.12 and older), as `kubectl get ipaddresspools.metallb.io -A -o yaml` \
                 prints them"
            }
            Self::KubeVip { .. } => {
                "kube-vip's ConfigMap with cidr-… or range-…, as `kubectl get configmap kubevip -n kube-system -o yaml` prints it; with --vip, its pods or their manifest"
            }
            Self::Purelb => {
                "PureLB's ServiceGroups, as `kubectl get servicegroups.purelb.io -A -o yaml` prints them"
            }
            Self::Cilium => {
                "CiliumLoadBalancerIPPools, as `kubectl get ciliumloadbalancerippools.cilium.io -o yaml` prints them"
            }
            Self::Keepalived { .. } => {
                "a keepalived.conf with a vrrp_instance, or KeepalivedGroups and their Services"
            }
        }
    }
}

/// The result of a conversion.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// The pools and Announcements, or the settings of `windlass vip`, as YAML.
    pub(crate) yaml: String,
    /// Number of pools.
    pub(crate) pools: usize,
    /// Facts by which nothing is lost.
    pub(crate) notes: Vec<String>,
    /// Settings that were not converted, or that mean something else, with object, field and remedy.
    pub(crate) warnings: Vec<String>,
    /// Parts of the input that were left out, with object, field and remedy. With any of them the result is incomplete.
    pub(crate) errors: Vec<String>,
}

/// Exit code if all objects were converted, but not every setting of them.
const SETTINGS_LOST: u8 = 3;

/// Converts what stands on standard input: pools to standard output, one line for each difference to standard error. Exit code 3: a
/// setting was not converted.
///
/// # Errors
/// When nothing could be converted, or an object was left out; what could be converted is on standard output then.
pub fn run(source: &Source) -> anyhow::Result<ExitCode> {
    let mut input = std::io::stdin();
    ensure!(!input.is_terminal(), "give on standard input {}", source.input());
    let mut text = Vec::new();
    input.read_to_end(&mut text).context("cannot read standard input")?;
    let text = String::from_utf8(text).context("standard input is not text in UTF-8: save it as such")?;
    let Conversion { yaml, pools: _, notes, warnings, errors } = source.convert(&text);
    for (weight, lines) in [("note", &notes), ("warning", &warnings), ("error", &errors)] {
        for line in lines {
            eprintln!("windlass: {weight}: {line}");
        }
    }
    std::io::stdout().write_all(yaml.as_bytes()).context("cannot write to standard output")?;
    match (yaml.is_empty(), errors.is_empty()) {
        (true, true) => bail!("the input has nothing to convert: give {}", source.input()),
        (true, false) => bail!("nothing was converted: correct the errors above in the input"),
        (false, false) => {
            bail!("not everything was converted: correct the errors above in the input, and convert it again")
        }
        (false, true) if warnings.is_empty() => Ok(ExitCode::SUCCESS),
        (false, true) => {
            eprintln!(
                "windlass: {} not converted: do what the warnings above say before you apply the output",
                if warnings.len() == 1 {
                    "a setting was".to_owned()
                } else {
                    format!("{} settings were", warnings.len())
                }
            );
            Ok(ExitCode::from(SETTINGS_LOST))
        }
    }
}
