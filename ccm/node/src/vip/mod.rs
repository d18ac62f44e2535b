//! `windlass vip`: virtual IPs of this node's own programs, such as the API server, held without an API server.
//!
//! | file | concept |
//! |---|---|
//! | `flags`, `settings` | what the process is to do, from the command line or a file, validated |
//! | `checks`, `checked` | whether this node and its backends are well |
//! | `place`, `election`, `virtual_ip` | where a virtual IP is announced, with which priority, keys and VRID; pure |
//! | `routes`, `announcer` | which routes BGP routers get; the speaker |
//! | `holder`, `translation` | configuration of the engine and the kernel for all of them |
//! | `metrics` | what is shown of them |
//! | `run` | the process, the only one of the host |
//! | `manifest` | static pods and units of systemd that run it |

mod announcer;
mod checked;
mod checks;
mod election;
mod flags;
mod holder;
mod manifest;
mod metrics;
mod place;
mod routes;
mod run;
mod settings;
mod translation;
mod virtual_ip;

pub use self::flags::SettingsFlags;
pub use self::manifest::{ManifestArgs, manifest};
pub use self::run::run;

/// Checks that a text is settings that `windlass vip --config` accepts.
///
/// # Errors
/// The first mistake in it.
pub fn check_settings(text: &str) -> Result<(), settings::SettingsError> {
    settings::parse(text.as_bytes(), "vip.yaml").map(drop)
}

/// Socket on which `windlass vip` answers its probes.
pub const SOCKET: &str = "/run/windlass/vip.sock";
