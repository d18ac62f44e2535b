//! Daemons of other programs, as the engine's tests start them.

#[path = "../../../../vrrp/engine/tests/it/interop/process.rs"]
#[expect(dead_code, reason = "made for the engine's tests")]
pub(crate) mod process;
