//! Routers of the tests, where the tests have them.

#[path = "../../tests/it/speaker/makers/mod.rs"]
#[allow(dead_code, unused_imports, reason = "made for the tests")]
pub(crate) mod makers;
#[path = "../../tests/it/speaker/router.rs"]
#[allow(dead_code, reason = "made for the tests")]
pub(crate) mod router;
