//! The whole controller against an API server in memory: what it leaves behind when it dies, when there are two of it, and
//! when the API server is slow and fails.

mod contest;
mod crash;
mod edits;
mod external;
mod hands;
mod leftovers;
mod lives;
mod memories;
mod named_pools;
mod race;
mod reached;
mod restarts;
mod rig;
mod scenarios;
mod sources;
mod vandals;
