//! Own addresses that peers send adverts to: announced when the interface comes back.
//!
//! Peers that send this node unicast adverts look up its link-layer address when they send. If that entry expired while the cable
//! was out, their adverts wait for the answer, and this node, which receives none, takes over from an Active that is well. A peer
//! whose cache is filled does not wait.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::sockets::LinkSockets;
use windlass_vrrp::Family;

use crate::handle::Plan;

use super::frame::Frame;
use super::tracker::SocketsId;
use super::{Neighbour, id_of, own_macs, packet};

/// Addresses to announce, each once however many routers share it.
#[derive(Debug, Default)]
pub(super) struct SourceAnnouncements {
    known: BTreeSet<(SocketsId, IpAddr)>,
    due: Vec<(Arc<LinkSockets>, IpAddr)>,
}

impl SourceAnnouncements {
    /// Records that a router's plan is this one, after `before`.
    pub(super) fn note(&mut self, before: Option<&Plan>, plan: &Plan) {
        let link_of = |plan: &Plan| plan.link.as_ref().map(id_of);
        if let (Some(link), Some(source)) = (&plan.link, plan.unicast_source)
            && before.and_then(link_of) != Some(id_of(link))
            && self.known.insert((id_of(link), source))
        {
            self.due.push((Arc::clone(link), source));
        }
    }
}

impl Neighbour<'_> {
    /// Announces own addresses that are due.
    pub(super) fn announce_sources(&mut self) {
        self.source_announcements.known.clear();
        if self.source_announcements.due.is_empty() {
            return;
        }
        let assigned = own_macs::addresses();
        for (link, source) in
            self.source_announcements.due.drain(..).filter(|(_, source)| assigned.contains(source))
        {
            let family = Family::of(source);
            let forms = 0..packet::forms(family);
            let frames: Vec<Frame> = forms.map(|form| packet::announcement(source, form, link.mac)).collect();
            let bytes: Vec<&[u8]> = frames.iter().map(Frame::bytes).collect();
            // Lost, it costs what not greeting costs.
            let _ = link.neighbour.send(family, &bytes);
        }
    }
}
