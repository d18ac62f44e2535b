//! The binary as a user meets it: bad input is answered with one clear sentence, and the agent starts, works and stops
//! without an API server.

// `cfg(test)` tells clippy that helpers, too, are test code, which may unwrap (clippy.toml).
#[cfg(test)]
mod agent;
mod api_vip_page;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod evidence;
#[cfg(test)]
#[path = "../../../../vrrp/engine/tests/it/speaker/router.rs"]
#[expect(dead_code, reason = "made for the engine's tests")]
mod frr;
#[cfg(test)]
mod image;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod interop;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod source;
#[cfg(test)]
mod support;
#[cfg(test)]
mod vip_bgp;
