//! Counters of a receiver.

/// Counters of a receiver since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReceiverCounters {
    /// Datagrams that arrived, of all kinds.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Connections put in, or changed.
    pub put: u64,
    /// Connections removed, for any reason.
    pub forgotten: u64,
    /// Snapshots completed.
    pub snapshots: u64,
    /// Times that the replicas differed from the sender's summary.
    pub diverged: u64,
    /// Requests for a new stream, each as often as it was sent, by [`super::Reason::index`].
    pub resyncs: [u64; 6],
    /// Datagrams that had arrived before.
    pub refused_duplicate: u64,
    /// Datagrams of another stream: of a former life of either side, or recorded.
    pub refused_stale: u64,
    /// Signs of life of a former life of the sender.
    pub refused_old_epoch: u64,
    /// Datagrams that only a faulty peer sends: beyond the window, out of turn, or for a sender.
    pub refused_nonsense: u64,
    /// Connections of VIPs that are not this node's.
    pub refused_vip: u64,
    /// Connections beyond what there was room for.
    pub refused_full: u64,
}
