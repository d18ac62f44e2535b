//! Connections that another node's kernel is told of, and goes on with.

mod following;
pub(crate) mod scene;
mod survival;
mod table;
