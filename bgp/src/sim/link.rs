//! The path between both: TCP and datagrams.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bfd::Packet;
use crate::session::Session;
use crate::units::{Random, Time};

const LATENCY: Duration = Duration::from_millis(1);
/// Time until TCP tries again while the path is cut.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// Bytes that may be on the way in one direction: less than a message.
const WINDOW: usize = 1500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Speaker,
    Router,
}

#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// SYN, and its answer.
    Connect,
    Bytes(Vec<u8>),
    /// FIN or RST.
    Close,
}

#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) arrival: Time,
    pub(super) packet: Packet,
}

/// Segments and datagrams on the way to one side.
#[derive(Debug, Default)]
struct Way {
    segments: VecDeque<(Time, Segment, u32)>,
    datagrams: VecDeque<Datagram>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) is_cut: bool,
    /// BFD packets that are lost, in thousandths.
    pub(super) loss: u64,
    ways: [Way; 2],
}

impl Link {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn way(&mut self, to: Side) -> &mut Way {
        &mut self.ways[to as usize]
    }

    pub(super) fn send(&mut self, to: Side, segment: Segment, connection: u32, now: Time) {
        if let Segment::Bytes(bytes) = &segment {
            self.way(to).bytes += bytes.len();
        }
        self.way(to).segments.push_back((now + LATENCY, segment, connection));
    }

    /// Sends what the session has and the window takes.
    pub(super) fn transmit(&mut self, session: &mut Session, to: Side, connection: u32, now: Time) {
        loop {
            let room = WINDOW.saturating_sub(self.way(to).bytes);
            let pending = session.poll_transmit(now);
            let count = pending.len().min(room);
            if count == 0 {
                return;
            }
            let bytes = pending[..count].to_vec();
            self.send(to, Segment::Bytes(bytes), connection, now);
            session.handle_transmitted(count, now);
        }
    }

    pub(super) fn send_packet(&mut self, to: Side, packet: Packet, now: Time, random: &mut Random) {
        if !self.is_cut && random.below(1000) >= self.loss {
            let bytes = packet.encode();
            let packet = Packet::decode(&bytes).unwrap();
            self.way(to).datagrams.push_back(Datagram { arrival: now + LATENCY, packet });
        }
    }

    /// A new connection has an empty window.
    pub(super) fn reconnect(&mut self) {
        for way in &mut self.ways {
            way.segments.clear();
            way.bytes = 0;
        }
    }

    pub(super) fn is_acknowledged(&self, to: Side) -> bool {
        self.ways[to as usize].bytes == 0
    }

    pub(super) fn next(&self, to: Side) -> Option<Time> {
        let way = &self.ways[to as usize];
        let segment = way.segments.front().map(|(arrival, ..)| *arrival);
        segment.into_iter().chain(way.datagrams.front().map(|datagram| datagram.arrival)).min()
    }

    pub(super) fn take_datagram(&mut self, to: Side, now: Time) -> Option<Datagram> {
        let datagrams = &mut self.way(to).datagrams;
        datagrams.pop_front_if(|datagram| datagram.arrival <= now)
    }

    pub(super) fn take_segment(&mut self, to: Side, now: Time) -> Option<(Segment, u32)> {
        let is_cut = self.is_cut;
        let way = self.way(to);
        let first = way.segments.front_mut().filter(|(arrival, ..)| *arrival <= now)?;
        if is_cut {
            first.0 = now + RETRANSMISSION;
            return None;
        }
        let (_, segment, connection) = way.segments.pop_front()?;
        if let Segment::Bytes(bytes) = &segment {
            way.bytes -= bytes.len();
        }
        Some((segment, connection))
    }
}
