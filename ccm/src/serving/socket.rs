//! The same pages without TLS, for any program that may open a Unix socket: probes and other programs of the same container or user.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prometheus::Registry;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use super::connections::accept_local;
use super::handler::RequestHandler;
use super::health::HealthChecks;
use super::pages::Pages;

/// The Unix socket cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on the socket {}: {source}; name another file, which this process may make", path.display())]
pub struct SocketError {
    /// Path of the socket.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

/// Its owner alone may connect.
const MODE: u32 = 0o600;

/// An endpoint on a Unix socket, without authentication: the file's owner and root may ask, and no place among its connections can be
/// taken by anybody else.
#[derive(Debug)]
pub struct SocketServer {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketServer {
    /// Listens on `path`, whose folder is made if need be. A socket that another process left there is replaced, one that a process listens
    /// on is not.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let bind = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path) {
                    Ok(_) => {
                        return Err(io::Error::new(
                            ErrorKind::AddrInUse,
                            "another process answers there: end it",
                        ));
                    }
                    Err(_) => fs::remove_file(path)?,
                },
                Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "there is something else")),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
            Ok(listener)
        };
        let listener = bind().map_err(|source| SocketError { path: path.to_owned(), source })?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers until `token` is cancelled, and removes the socket. Failed checks are shown with their reasons.
    pub async fn serve(self, registry: Registry, health: HealthChecks, token: CancellationToken) {
        let Self { listener, path } = self;
        let handler =
            Arc::new(RequestHandler { auth_filter: None, health, registry, pages: Pages::default() });
        accept_local(listener, handler, token).await;
        // It goes with the process in any case; the next one replaces what is left.
        let _ = fs::remove_file(path);
    }
}
