//! `windlass vip manifest`: prints the static pod or the systemd unit by which a control-plane node runs `windlass vip`, with the settings
//! of its flags. Needs no cluster.
//!
//! | file | concept |
//! |---|---|
//! | `platform` | platforms: the place of the manifest, further steps, and default checks |
//! | `mounts` | the files of the host that the settings name |
//! | `pod` | the static pod |
//! | `unit` | the unit of systemd |

mod mounts;
mod platform;
mod pod;
mod unit;

use std::path::PathBuf;

use clap::Args;
use windlass_common::host_pod::IMAGE;

pub(crate) use self::platform::Platform;
use super::flags::SettingsFlags;
use super::settings::{CheckKind, Settings, SettingsError};

#[cfg(test)]
mod tests;

/// A container keeps the file that it began with, and a new one by the same name is another file.
const FILE_NOTE: &str = "# After you replace a file of certificates or a password by another file, recreate the pod: it keeps the old one.\n";

/// Arguments of `windlass vip manifest`.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// Platform that the manifest is for
    #[arg(long = "for", value_enum, value_name = "PLATFORM")]
    platform: Platform,
    /// Image of the static pod
    #[arg(long, default_value = IMAGE, value_name = "IMAGE")]
    image: String,
    /// Unix socket on which `windlass vip` will answer its probes
    #[arg(long, default_value = super::SOCKET, value_name = "FILE")]
    socket: PathBuf,
    #[command(flatten)]
    settings: SettingsFlags,
}

/// Reason why there is no manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The settings are none.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file that is not to be mounted as it is named.
    #[error("{name} {path}: {problem}: {remedy}", path = path.display())]
    Path {
        /// The flag or field.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// Problem of the file.
        problem: &'static str,
        /// Remedy.
        remedy: &'static str,
    },
    /// A program that is not in the image.
    #[error(
        "check {0}: the image {IMAGE} contains only Windlass: name an image that contains the program by --image, use --for systemd, or \
         check a server"
    )]
    CommandInImage(String),
    /// It cannot be written.
    #[error("the pod cannot be written as YAML: {0}")]
    Yaml(String),
}

/// Returns the manifest, with comments that explain its use.
///
/// # Errors
/// The settings are invalid, or do not fit the platform.
pub fn manifest(args: &ManifestArgs) -> Result<String, ManifestError> {
    let ManifestArgs { platform, image, socket, settings: flags } = args;
    let flags = platform.with_defaults(flags);
    mounts::check("--socket", socket)?;
    if let Some(file) = &flags.config {
        mounts::check("--config", file)?;
    }
    let settings = flags.settings()?;
    let words = [vec!["vip".to_owned(), format!("--socket={}", socket.display())], flags.to_args()].concat();
    let head = platform.head(&settings, socket);
    let body = match platform {
        Platform::Systemd => unit::unit(&settings, socket, &words),
        Platform::Kubeadm | Platform::K3s | Platform::Rke2 | Platform::Kubelet => {
            if image == IMAGE {
                refuse_commands(&settings)?;
            }
            let mounts = mounts::mounts(&settings, flags.config.as_deref(), socket)?;
            let note = if mounts.iter().any(|mount| mount.kind == "File") { FILE_NOTE } else { "" };
            format!("{note}{}", pod::yaml(&pod::pod(image, socket, words, &mounts))?)
        }
    };
    Ok(format!("{head}{body}"))
}

fn refuse_commands(settings: &Settings) -> Result<(), ManifestError> {
    let checks = settings.vips.iter().flat_map(|vip| &vip.checks);
    let mut commands = checks.filter(|check| matches!(check.kind, CheckKind::Command(_)));
    match commands.next() {
        Some(check) => Err(ManifestError::CommandInImage(check.kind.to_string())),
        None => Ok(()),
    }
}
