//! Questions to servers of this machine or the network, and commands: one attempt each. The agent and `windlass vip` judge the answers
//! over time, each by its own rules.
//!
//! | file | concept |
//! |---|---|
//! | `question`, `target` | the question, and the server |
//! | `probe` | one attempt at a server, within its time, at the first of its addresses that answers |
//! | `http`, `grpc`, `tls` | asking a server by these |
//! | `command` | running a program |
//! | `failure` | the reason for a failed attempt; a connection that is driven until its answer arrives |
//! | `words` | foreign text, as part of a reason |

pub(crate) mod command;
mod failure;
mod grpc;
mod http;
mod probe;
mod question;
mod target;
mod tls;
mod words;

pub(crate) use self::failure::Failure;
pub(crate) use self::http::text;
pub(crate) use self::probe::{Probe, Within};
pub(crate) use self::question::{HttpQuestion, Question, Tls, Trust};
pub(crate) use self::target::{Host, LOOPBACK, Target};

#[cfg(test)]
pub(crate) mod tests;

/// Result of one attempt at a server.
pub(crate) type Answer = Result<(), Failure>;
