//! What the lab promises, and what Windlass does in it.

mod addresses;
mod failover;
mod full;
mod light;
mod nodes;
mod setup;
mod teardown;
mod whole_path;
