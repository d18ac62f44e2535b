//! Contents of the datagrams.

use super::connection::Connection;
use super::entry::Entry;
use super::table::Summary;

/// One life of a sender, from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch {
    /// Greater than in any former life, as far as the node can know: its wall clock at the start in nanoseconds will do. Where it
    /// is not, receivers take a little longer to obey; nothing else depends on it.
    pub start: u64,
    /// Drawn at the start, from all 64-bit numbers.
    pub random: u64,
}

/// A datagram without its trailer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Epoch of the sender. Zeros in the resynchronisation request of a receiver that has not learned one yet.
    pub epoch: Epoch,
    /// The number that the receiver drew for this stream; 0 for none.
    pub challenge: u64,
    /// The rest.
    pub body: Body,
}

/// Kind of a datagram, with its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// From the sender: the datagram of this number in the stream, 1 for the first.
    Data {
        /// Its number.
        sequence: u64,
        /// True if the sender has changes waiting that should have been in it.
        behind: bool,
        /// Content of the datagram.
        data: Data,
    },
    /// From the sender: it lives.
    Alive(Alive),
    /// From the receiver: what arrived.
    Acknowledge {
        /// All up to this number arrived; 0 for none.
        up_to: u64,
        /// Datagrams that did not arrive although later ones did, in order.
        missing: Vec<Missing>,
        /// True if the receiver has no room for some of what arrived.
        full: bool,
    },
    /// From the receiver: begin a new stream that echoes this message's challenge.
    Resync {
        /// The ticket of the last [`Alive`]; each begins one stream.
        ticket: u64,
        /// Reason for the request.
        reason: Reason,
    },
}

/// Content of a numbered datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// Connections that changed.
    Update(Vec<Entry>),
    /// A snapshot of this number begins.
    SnapshotBegin(u32),
    /// Some of its connections.
    SnapshotPart(u32, Vec<Connection>),
    /// The snapshot is complete: connections that neither it nor an update since its begin named no longer exist.
    SnapshotEnd(u32),
}

/// A sign of life of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alive {
    /// Grows with each.
    pub beat: u64,
    /// Number that a resynchronisation request must name. It changes each time a stream begins or ends.
    pub ticket: u64,
    /// True if the message's challenge is that of the sender's stream. Otherwise it is that of a request that named another ticket,
    /// or 0.
    pub attached: bool,
    /// The last number in the stream.
    pub last: u64,
    /// True if the sender has changes waiting that should have been sent.
    pub behind: bool,
    /// Summary of the connections of a receiver that applied all up to `last`; `None` while more wait to be sent.
    pub summary: Option<Summary>,
}

/// Numbers of datagrams that did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// Reason for a receiver to request a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// It has just started.
    Start,
    /// The sender stopped sending.
    Silent,
    /// The sender has started anew, or has given up the stream.
    Lost,
    /// Its connections differ from what the sender reports.
    Diverged,
    /// VIPs became its own of which it refused connections.
    Vips,
    /// It was full and has room again.
    Room,
}

impl Reason {
    /// Labels of all reasons, in the order of [`Reason::index`].
    pub const LABELS: [&'static str; 6] = ["start", "silent", "lost", "diverged", "vips", "room"];
    pub(super) const ALL: [Self; 6] =
        [Self::Start, Self::Silent, Self::Lost, Self::Diverged, Self::Vips, Self::Room];

    /// Position of the reason in [`Reason::LABELS`], for tables of counters; its number on the wire is one more.
    pub fn index(self) -> usize {
        match self {
            Self::Start => 0,
            Self::Silent => 1,
            Self::Lost => 2,
            Self::Diverged => 3,
            Self::Vips => 4,
            Self::Room => 5,
        }
    }

    /// Short name of the reason, for metrics.
    pub fn label(self) -> &'static str {
        Self::LABELS[self.index()]
    }
}

impl Message {
    /// Returns true if the message is for a [`super::Sender`]; all others are for a [`super::Receiver`].
    pub fn is_for_sender(&self) -> bool {
        match self.body {
            Body::Data { .. } | Body::Alive(_) => false,
            Body::Acknowledge { .. } | Body::Resync { .. } => true,
        }
    }
}
