//! The program on each node, which runs virtual routers by `windlass-engine`. It has two front ends: [`agent`] follows the objects of a
//! cluster; [`vip`] follows its flags or a file, and needs no cluster.
//!
//! It may depend on the engine, the custom resources and `windlass-common`, never on the controller.
//!
//! Both use [`checks`], [`keys`], [`flaps`], [`started_engine`], [`engine_events`], [`bgp_sessions`], [`parts`], [`helper_metrics`]
//! and [`every`].
//!
//! Entry points: [`agent::run`], [`vip::run`], [`vip::manifest()`].

pub mod agent;
mod bgp_sessions;
mod checks;
mod engine_events;
mod flaps;
mod helper_metrics;
mod keys;
mod parts;
mod started_engine;
pub mod vip;

/// Returns a timer that ticks immediately and then at this interval. After a delay the next tick is an interval later.
pub(crate) fn every(interval: std::time::Duration) -> tokio::time::Interval {
    let mut timer = tokio::time::interval(interval);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer
}

/// Formats a link-layer address as `02:00:00:00:00:01`.
pub(crate) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
