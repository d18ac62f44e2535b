//! `windlass vip`: virtual IPs of this node's own programs, such as the API server, held without an API server.
//!
//! | file | concept |
//! |---|---|
//! | `flags`, `settings` | what the process is to do, from the command line or a file, validated |
//! | `checks`, `checked` | whether this node and its backends are well |
//! | `place`, `election`, `signing_keys`, `virtual_ip` | where a virtual IP is announced, with which priority, keys and VRID; pure |
//! | `holder`, `translation` | what the engine and the kernel are told of all of them |
//! | `run` | the process |

mod checked;
mod checks;
mod election;
mod flags;
mod holder;
mod metrics;
mod place;
mod run;
mod settings;
mod signing_keys;
mod translation;
mod virtual_ip;

pub(crate) use self::flags::SettingsFlags;
pub(crate) use self::run::run;
