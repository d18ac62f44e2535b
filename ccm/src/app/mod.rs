//! Everything of a cloud-controller-manager but the provider: flags, election, health, the start of the controllers. What
//! `k8s.io/cloud-provider/app` is for Go.
//!
//! | file | concept |
//! |---|---|
//! | `flags`, `serving_flags` | the flags of every cloud-controller-manager, read |
//! | `noop` | those that have no effect here |
//! | `options` | the flags judged: what this process is to be |
//! | `duration`, `controllers` | durations and lists of controllers as flags have them |
//! | `connect` | which API server |
//! | `provider`, `nothing` | what a provider implements |
//! | `run`, `pulse` | from the start to the end, and whether it lives |
//! | `process`, `logging`, `identity` | `main` |
//!
//! `examples/static_provider.rs` is a complete provider.

mod connect;
mod controllers;
mod duration;
mod flags;
mod identity;
pub mod logging;
mod noop;
mod nothing;
mod options;
mod process;
mod provider;
mod pulse;
mod run;
mod serving_flags;

pub use connect::{ConnectError, Server};
pub use controllers::{ControllerName, Selection, UnknownController, select};
pub use duration::{DurationError, GoDuration};
pub use flags::{ControllerFlags, ElectionFlags, Flags, LoggingFlags, go_bool};
pub use identity::{IdentityError, identity};
pub use noop::{HEADING, Ignored, WITHOUT_EFFECT, WithoutEffect};
pub use nothing::{NoInstances, NoLoadBalancer};
pub use options::{FlagError, Options};
pub use process::{main, sentence, until_signal};
pub use provider::{BoxError, Capabilities, CloudProvider, Context};
pub use run::{Manager, RunError, run};
pub use serving_flags::ServingFlags;
