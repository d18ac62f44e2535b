//! The thread `windlass-hold`: binds VIPs to interfaces for virtual routers that hold them by address or vmac.

#![allow(dead_code, reason = "the thread comes next")]

mod address;
mod bindings;
mod orders;
