//! IP address ranges and an allocator that never walks them; pure, no I/O, no clock, no Kubernetes.
//!
//! - [`AddressRange`] is one CIDR, `a-b` range or address, parsed with an error that says what is wrong and what to write
//!   instead.
//! - [`AddressSet`] is any number of them, with set arithmetic; it costs what it is written with, not what it holds: a
//!   `/64` is one entry.
//! - [`Allocator`] gives addresses of named [`Pool`]s to [`Owner`]s: what a [`Request`] asks for, as each pool's
//!   [`Policy`] allows, shared where both sides' [`Terms`] agree. A [`Plan`] is made without a change and carried out
//!   without a failure.
//! - A released address is [`Quarantined`] for a while. Time is an argument ([`Moment`]).
//!
//! ```
//! use windlass_ipam::{Allocator, Families, Family, Acquisition, Pool, Request};
//!
//! let pool = Pool::new("lan", ["192.0.2.10-192.0.2.11".parse()?]);
//! let mut allocator = Allocator::new([pool]);
//! let request = Request::any(Families::Single(Family::V4), "default");
//! let plan = allocator.prepare(&"web", &request)?.commit();
//! assert_eq!(plan.addresses[0].address.to_string(), "192.0.2.10");
//! // The same owner asks again and keeps its address.
//! assert_eq!(allocator.plan(&"web", &request)?.addresses[0].how, Acquisition::Kept);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocator;
mod family;
mod moment;
mod pool;
mod quarantine;
mod range;
mod request;
mod runs;
mod selector;
mod set;
mod small_set;
mod table;
mod terms;

pub use allocator::{
    Adopted, AllocateError, Allocator, Counts, PoolRefusal, Prepared, RefusalReason, Released,
    SharingConflict,
};
pub use family::{Families, Family};
pub use moment::Moment;
pub use pool::{Limits, Order, Policy, Pool, WhenFull};
pub use quarantine::{QuarantineCause, Quarantined};
pub use range::{AddressRange, ParseRangeError};
pub use request::{Acquisition, Owner, Plan, PlannedAddress, Request};
pub use selector::{Labels, Requester, Requirement, Selector};
pub use set::AddressSet;
pub use terms::{Incompatible, MAX_HOLDERS, Port, Protocol, Sharing, Terms, TrafficPolicy};
