//! The whole controller against an API server in memory: what it leaves behind when it dies, when there are two of it, and
//! when the API server is slow and fails.

mod crash;
mod edits;
mod external;
mod foreign_writers;
mod joins;
mod kept;
mod leftovers;
mod lives;
mod local;
mod manual_edits;
mod memories;
mod named_pools;
mod node_rules;
mod pairs;
mod race;
mod reached;
mod replacing;
mod restarts;
mod rig;
mod scenarios;
mod sources;
mod tenants;
mod vandals;
