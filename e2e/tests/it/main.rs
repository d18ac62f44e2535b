//! What the lab promises, and what Windlass does in it.

mod addresses;
mod api_faults;
mod black_box;
mod commands;
mod example_provider;
mod examples;
mod failover;
mod full;
mod guard;
mod hostile;
mod kubelets;
mod light;
mod local;
mod metrics;
mod migration;
mod node_changes;
mod nodes;
mod nonsense;
mod odd_services;
mod pool_rules;
mod service_side;
mod serving;
mod setup;
mod sources;
mod teardown;
mod whole_path;
