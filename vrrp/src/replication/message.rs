//! What the datagrams say.

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
    /// The sender's life that it comes from, or goes to. Zeros in the resynchronisation request of a receiver that has not heard
    /// of one yet.
    pub epoch: Epoch,
    /// The number that the receiver drew for this stream; 0 for none.
    pub challenge: u64,
    /// The rest.
    pub body: Body,
}

/// What kind of datagram it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// From the sender: the datagram of this number in the stream, 1 for the first.
    Data {
        /// Its number.
        sequence: u64,
        /// Whether the sender has changes waiting that ought to have been in it.
        behind: bool,
        /// What it brings.
        data: Data,
    },
    /// From the sender: it lives.
    Alive(Alive),
    /// From the receiver: what arrived.
    Acknowledge {
        /// All up to this number arrived; 0 for none.
        up_to: u64,
        /// Those that did not arrive although later ones did, in order.
        missing: Vec<Missing>,
        /// Whether the receiver has no room for some of what arrived.
        full: bool,
    },
    /// From the receiver: begin a new stream that echoes this message's challenge.
    Resync {
        /// The ticket of the last [`Alive`]; each begins one stream.
        ticket: u64,
        /// Why.
        reason: Reason,
    },
}

/// What a numbered datagram brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// What changed.
    Update(Vec<Entry>),
    /// A snapshot of this number begins.
    SnapshotBegin(u32),
    /// Some of its connections.
    SnapshotPart(u32, Vec<Connection>),
    /// It was complete: what it did not name, and no update since its begin, is no more.
    SnapshotEnd(u32),
}

/// A sign of life of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alive {
    /// Grows with each.
    pub beat: u64,
    /// What a resynchronisation request must name. Another one each time that a stream begins or ends.
    pub ticket: u64,
    /// Whether the message's challenge is that of the sender's stream; if not, it is that of a request which named another
    /// ticket, or 0.
    pub attached: bool,
    /// The last number in the stream.
    pub last: u64,
    /// Whether the sender has changes waiting that ought to have been sent.
    pub behind: bool,
    /// What a receiver has that took all up to `last`; `None` while more is waiting to be sent.
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

/// Why a receiver wants a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// It has just started.
    Start,
    /// The sender fell silent.
    Silent,
    /// The sender has started anew, or has given up the stream.
    Lost,
    /// It has something else than the sender says it should have.
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
    /// Whether a [`super::Sender`] is to have it; a [`super::Receiver`] has the others.
    pub fn is_for_sender(&self) -> bool {
        match self.body {
            Body::Data { .. } | Body::Alive(_) => false,
            Body::Acknowledge { .. } | Body::Resync { .. } => true,
        }
    }
}
