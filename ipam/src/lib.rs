//! IP address ranges and an allocator that never walks them; pure, no I/O, no clock, no Kubernetes.
//!
//! - [`AddressRange`] is one CIDR or `a-b` range, parsed with an error that says what is wrong and what to write instead.
//! - [`AddressSet`] is any number of them, with set arithmetic; it costs what it is written with, not what it holds: a
//!   `/64` is one entry.
//! - [`Allocator`] gives addresses of named [`Pool`]s to owners. Finding the lowest free address costs O(log n) of what
//!   is in use.
//!
//! ```
//! use windlass_ipam::{Allocator, Family, Pool, Request};
//!
//! let pool = Pool::new("lan", ["192.0.2.10-192.0.2.11".parse()?], true);
//! let mut allocator = Allocator::new([pool]);
//! let given = allocator.allocate(&"web", Family::V4, &Request::default())?;
//! assert_eq!(given.address.to_string(), "192.0.2.10");
//! // The same owner asks again and gets the same address.
//! assert_eq!(allocator.allocate(&"web", Family::V4, &Request::default())?, given);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocator;
mod family;
mod pool;
mod range;
mod runs;
mod set;

pub use allocator::{Adopted, AllocateError, Allocation, Allocator, Counts, Refusal, Refused, Request};
pub use family::Family;
pub use pool::Pool;
pub use range::{AddressRange, ParseRangeError};
pub use set::AddressSet;
