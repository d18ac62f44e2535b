//! The files of the host that the settings name, and nothing else of it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::ManifestError;
use crate::checks::{Question, Trust};
use crate::vip::settings::{CheckKind, Settings};

/// A file or folder that has the same path in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// A DNS label, by which the pod knows it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Kind of file that has to be there (`hostPath.type`).
    pub(super) kind: &'static str,
}

/// Returns the read-only mounts: the folder of the settings' file, which an editor replaces, and that of the keys; of certificates and
/// passwords just the file, as private keys often lie beside them.
pub(super) fn mounts(
    settings: &Settings,
    config: Option<&Path>,
    socket: &Path,
) -> Result<Vec<Mount>, ManifestError> {
    let mut mounts: Vec<Mount> = Vec::new();
    if let Some(folder) = config.and_then(Path::parent) {
        mounts.push(Mount { name: "config".to_owned(), path: folder.to_owned(), kind: "Directory" });
    }
    let mut add = |name: String, path: &Path, kind| {
        if !mounts.iter().any(|mount| path.starts_with(&mount.path)) {
            mounts.push(Mount { name, path: path.to_owned(), kind });
        }
    };
    if let Some(folder) = &settings.keys_dir {
        check("keysDir", &folder.join("key"))?;
        // A folder without keys does not keep the process from starting.
        add("keys".to_owned(), folder, "DirectoryOrCreate");
    }
    for (number, file) in authorities(settings).into_iter().enumerate() {
        check("caFile", file)?;
        add(format!("ca-{number}"), file, "File");
    }
    for (number, file) in settings.password_files().enumerate() {
        check("passwordFile", file)?;
        add(format!("password-{number}"), file, "File");
    }
    // The pod has a folder of its own for its socket, in which nothing of the host would be seen.
    let folder = socket.parent();
    if mounts.iter().any(|mount| folder.is_some_and(|folder| mount.path.starts_with(folder))) {
        return Err(ManifestError::Path {
            name: "--socket",
            path: socket.to_owned(),
            problem: "its folder hides files that the settings name",
            remedy: "put it into another folder, as /run/windlass/vip.sock",
        });
    }
    Ok(mounts)
}

fn authorities<'a>(settings: &'a Settings) -> BTreeSet<&'a Path> {
    let checks = settings.vips.iter().flat_map(|vip| &vip.checks).filter_map(|check| match &check.kind {
        CheckKind::Server { question, .. } => Some(question),
        CheckKind::Command(_) => None,
    });
    let backends =
        settings.vips.iter().filter_map(|vip| vip.balance.as_ref()).map(|balance| &balance.question);
    let authority = |question: &'a Question| match question {
        Question::Http(page) => match &page.tls.as_ref()?.trust {
            Trust::Authority(path) => Some(path.as_path()),
            Trust::Any | Trust::Certificate(_) => None,
        },
        Question::Tcp | Question::Grpc { .. } => None,
    };
    checks.chain(backends).filter_map(authority).collect()
}

/// Checks that a manifest can name this file: by an absolute path without `..`, which a kubelet refuses, and in a folder of its own.
pub(super) fn check(name: &'static str, path: &Path) -> Result<(), ManifestError> {
    let wrong = |problem, remedy| Err(ManifestError::Path { name, path: path.to_owned(), problem, remedy });
    if !path.is_absolute() {
        return wrong("it is not an absolute path", "begin it with /");
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return wrong("it contains ..", "write the path without it");
    }
    if path.components().count() < 3 {
        return wrong("its folder is the root of the host", "put it into a folder, as /etc/windlass");
    }
    Ok(())
}
