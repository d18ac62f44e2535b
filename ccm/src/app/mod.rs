//! Everything of a cloud-controller-manager but the provider: flags, election, health, the start of the controllers. What
//! `k8s.io/cloud-provider/app` is for Go.
//!
//! | file | concept |
//! |---|---|
//! | `flags`, `serving_flags` | the flags of every cloud-controller-manager, read |
//! | `noop` | those that have no effect here |
//! | `options`, `flag_error` | the flags checked: how this process runs, or which flag is wrong |
//! | `duration`, `controllers` | durations and lists of controllers as flags have them |
//! | `connect` | which API server |
//! | `provider`, `no_capability` | what a provider implements |
//! | `run`, `watchdog` | from the start to the end, and whether it lives |
//! | `process`, `logging`, `identity` | `main` |
//!
//! `examples/static_provider.rs` is a complete provider.

mod connect;
mod controllers;
mod duration;
mod flag_error;
mod flags;
mod identity;
pub mod logging;
mod no_capability;
mod noop;
mod options;
mod process;
mod provider;
mod run;
mod serving_flags;
mod watchdog;

pub use connect::{ApiServerConfig, ConnectError};
pub use controllers::{ControllerName, Selection, UnknownController, select};
pub use duration::{DurationError, GoDuration};
pub use flag_error::FlagError;
pub use flags::{ControllerFlags, ElectionFlags, Flags, LoggingFlags, go_bool};
pub use identity::{IdentityError, identity};
pub use no_capability::{NoInstances, NoLoadBalancer};
pub use noop::{IgnoredFlags, NOOP_FLAGS, NOOP_HEADING, NoopFlag};
pub use options::ManagerOptions;
pub use process::{main, until_signal};
pub use provider::{BoxError, Capabilities, CloudProvider, Context};
pub use run::{Manager, RunError, run};
pub use serving_flags::ServingFlags;
