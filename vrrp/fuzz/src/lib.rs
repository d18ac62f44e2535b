//! What the fuzz targets do with the bytes that libFuzzer gives them.
//!
//! | target | input | shows |
//! |---|---|---|
//! | `parse_v4`, `parse_v6` | [`wire`]: a packet behind two bytes that say how it is received | the parser never panics, accepts what is right by a second reading of the RFC and nothing else, and what it accepts is emitted the same |
//! | `router` | [`router`]: commands for one virtual router | a deadline unless in Initialize, actions only in legal order, no endless timer |
//! | `auth` | [`auth`]: commands for a signer and receivers | no trailer is accepted but the signer's, each of them once, whatever the clock does |
//! | `replication` | [`replication`]: datagrams of a careless or hostile peer for a receiver and a sender | nothing panics, memory stays bounded, a change is told once, what is decoded is encoded the same |
//! | `bgp_message` | [`bgp_message`]: bytes of a BGP peer | nothing panics, a beginning is judged as the whole, what is accepted means the same when it is sent |
//! | `bgp_session` | [`bgp_session`]: commands for one session, and bytes of its peer | bounded memory, no endless timer, each message that is sent is right |
//! | `bfd` | [`bfd`]: timers, packets and commands for one BFD session | packets are dropped by a second reading of the RFC and for nothing else, no illegal change, silence neither early nor never |
//!
//! `corpus/` holds inputs to start from: the golden vectors of `wire`, and short stories. The input of a fault that was found
//! and mended joins it.
//!
//! Nothing here returns an error: what is wrong panics, which libFuzzer reports with the input.

pub mod auth;
pub mod bfd;
pub mod bgp_message;
pub mod bgp_session;
pub mod input;
pub mod replication;
pub mod router;
pub mod wire;
