//! The binary as a user meets it: bad input is answered with one clear sentence, and the agent starts, works and stops
//! without an API server.

mod agent;
mod image;
mod refusals;
mod support;
