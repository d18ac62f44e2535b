//! Errors of decoding a datagram.

/// Reason to reject a datagram: it is no message of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Ends before what its head announces.
    #[error("{length} bytes, {wanted} or more expected: it was cut on the way")]
    Truncated {
        /// Bytes there were.
        length: usize,
        /// Bytes it needs at least.
        wanted: usize,
    },
    /// Longer than any that is sent.
    #[error("{length} bytes, {limit} at most expected")]
    TooLong {
        /// Bytes there were.
        length: usize,
        /// Bytes there may be.
        limit: usize,
    },
    /// Begins with something else.
    #[error("begins with {0:#010x}, {wanted:#010x} expected: another protocol on this port", wanted = u32::from_be_bytes(*super::MAGIC))]
    Magic(u32),
    /// A version that this node does not speak.
    #[error("version {0}, which this node does not speak (it has {wanted}): give all nodes one release", wanted = super::VERSION)]
    Version(u8),
    /// No kind of datagram.
    #[error("kind {0}, 1 to 7 expected")]
    Kind(u8),
    /// Flags that its kind does not have.
    #[error("flags {0:#04x}, which its kind does not have")]
    Flags(u8),
    /// More bytes than it announces.
    #[error("{0} bytes after its end, none expected")]
    Trailing(usize),
    /// A count for a kind that has none.
    #[error("counts {0} entries, and its kind has none")]
    Count(u8),
    /// Data numbered 0: the first is 1.
    #[error("sequence 0, 1 or more expected")]
    Sequence,
    /// No transport that is replicated.
    #[error("an entry of protocol {0}, 6 (TCP) or 17 (UDP) expected")]
    Transport(u8),
    /// Flags that no entry has.
    #[error("an entry with flags {0:#04x}, which none has")]
    EntryFlags(u8),
    /// A source in another form than the shortest.
    #[error("an entry whose source is not in its shortest form")]
    LongSource,
    /// The end of a connection in a snapshot, which has those that are there.
    #[error("an ended connection in a snapshot")]
    EndedInSnapshot,
    /// Missing datagrams in no order, or none.
    #[error("missing datagrams {first} to {last}, which are out of order")]
    Missing {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// A summary where none is announced.
    #[error("a digest of what is not settled, 0 expected")]
    Summary,
    /// No reason for a resynchronisation.
    #[error("reason {0} for a resynchronisation, 1 to 6 expected")]
    Reason(u8),
}

impl DecodeError {
    /// Labels of all reasons, in the order of [`DecodeError::index`].
    pub const LABELS: [&'static str; 16] = [
        "truncated",
        "too_long",
        "magic",
        "version",
        "kind",
        "flags",
        "trailing",
        "count",
        "sequence",
        "transport",
        "entry_flags",
        "long_source",
        "ended_in_snapshot",
        "missing",
        "summary",
        "reason",
    ];

    /// Position of the reason in [`DecodeError::LABELS`], for tables of counters.
    pub fn index(self) -> usize {
        match self {
            Self::Truncated { .. } => 0,
            Self::TooLong { .. } => 1,
            Self::Magic(_) => 2,
            Self::Version(_) => 3,
            Self::Kind(_) => 4,
            Self::Flags(_) => 5,
            Self::Trailing(_) => 6,
            Self::Count(_) => 7,
            Self::Sequence => 8,
            Self::Transport(_) => 9,
            Self::EntryFlags(_) => 10,
            Self::LongSource => 11,
            Self::EndedInSnapshot => 12,
            Self::Missing { .. } => 13,
            Self::Summary => 14,
            Self::Reason(_) => 15,
        }
    }

    /// Short name of the reason, for metrics.
    pub fn label(self) -> &'static str {
        Self::LABELS[self.index()]
    }
}
