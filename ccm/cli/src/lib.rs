//! Commands of administrators: [`inspect`] shows and changes the state of a cluster, [`convert`] reads the settings of other load balancers,
//! [`uninstall`] removes the objects that Windlass left behind. [`StatusPage`] shows the same state on the controller's own page.
//!
//! It may know the controller, whose decisions it explains, and a node's program, whose rules it checks. Neither knows this crate.
//!
//! Entry points: [`inspect::run`], [`convert::run`], [`uninstall::run`].

pub mod convert;
pub mod inspect;
mod status_page;
pub mod uninstall;

pub use self::status_page::StatusPage;
