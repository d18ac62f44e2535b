//! kube-proxy's mark for packets that it masquerades: read from its configuration, or set by the admin. It is never assumed: with a mark
//! other than the guard's no connection would be replicated, and a bit of another program would be cleared from its packets.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::sync::watch;

use super::ServiceProxy;
use crate::agent::health::request::proxy_config;

#[cfg(test)]
mod tests;

/// Known value of the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MasqueradeMark {
    /// Not read yet, or not in kube-proxy's answer.
    #[default]
    Unknown,
    /// Last value in kube-proxy's configuration.
    Read(u32),
    /// Value set by the admin.
    Given(u32),
}

impl MasqueradeMark {
    /// Returns the mark of this bit, if the admin set one.
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

/// Reads the mark again. The previous value counts while kube-proxy does not answer: its rules stay in the kernel.
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

/// Returns the mark in kube-proxy's configuration, as `/configz` has it: one component with a section for each mode. kube-proxy up to about
/// 1.31 names fields as its code does, later versions as in the configuration file.
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

/// Returns the field of this name, ignoring case.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
