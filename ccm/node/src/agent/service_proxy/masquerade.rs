//! kube-proxy's mark for packets that it masquerades: read from its configuration, or given by the admin. Never assumed: with another mark
//! than the guard's no connection would be replicated, and a bit that is another program's would be taken off its packets.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::sync::watch;

use super::ServiceProxy;
use crate::agent::health::proxy_config;

#[cfg(test)]
mod tests;

/// What is known of the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MasqueradeMark {
    /// It was not read, or kube-proxy did not tell it.
    #[default]
    Unknown,
    /// As kube-proxy's configuration says, last.
    Read(u32),
    /// As the admin says.
    Given(u32),
}

impl MasqueradeMark {
    /// The mark of this bit, if the admin names one.
    pub fn given(bit: Option<u8>) -> Self {
        bit.and_then(|bit| 1_u32.checked_shl(bit.into())).map_or(Self::Unknown, Self::Given)
    }

    pub(crate) const fn get(self) -> Option<u32> {
        match self {
            Self::Unknown => None,
            Self::Read(mark) | Self::Given(mark) => Some(mark),
        }
    }
}

/// Reads the mark anew. What was read before counts while kube-proxy does not answer: its rules stay in the kernel.
pub(super) async fn follow(
    kube_proxy: Option<SocketAddr>,
    proxy: ServiceProxy,
    known: &watch::Sender<MasqueradeMark>,
) {
    let (Some(address), false) = (kube_proxy, matches!(*known.borrow(), MasqueradeMark::Given(_))) else {
        return;
    };
    let Some(config) = proxy_config(address).await else { return };
    let Some(mark) = mark_in(&config, proxy) else { return };
    known.send_if_modified(|known| {
        let is_news = *known != MasqueradeMark::Read(mark);
        if is_news {
            tracing::info!(mark = format_args!("{mark:#x}"), "kube-proxy masquerades packets with this mark");
            *known = MasqueradeMark::Read(mark);
        }
        is_news
    });
}

/// The mark in kube-proxy's configuration, as `/configz` has it: one component with a section for each mode. kube-proxy up to 1.31 or so names
/// fields as its code does, later ones as in its configuration file.
fn mark_in(config: &str, proxy: ServiceProxy) -> Option<u32> {
    let section = match proxy {
        ServiceProxy::Nftables => "nftables",
        ServiceProxy::Iptables => "iptables",
        ServiceProxy::Unknown
        | ServiceProxy::Ipvs
        | ServiceProxy::Programs { .. }
        | ServiceProxy::Switched { .. } => return None,
    };
    let config: Value = serde_json::from_str(config).ok()?;
    let mut components = config.as_object()?.values();
    let bit = components.find_map(|one| field(field(one, section)?, "masqueradebit")?.as_u64())?;
    1_u32.checked_shl(u32::try_from(bit).ok()?)
}

/// The field of this name in lower case.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
