//! Client of the probes of the agent and of `windlass vip`: sends a request to the Unix socket of the process.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Read and write timeout: a working process answers immediately.
const LIMIT: Duration = Duration::from_secs(5);

/// The page that it shows, without its head. An error where it does not answer, or answers that a check fails.
pub fn ask(socket: &Path, page: &str) -> anyhow::Result<String> {
    let asked = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let request = format!("GET {page} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = asked().with_context(|| {
        format!(
            "asking {} at {}: does an agent run here, or `windlass vip`, with this --socket?",
            page,
            socket.display()
        )
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "{} answers {page} with {status}: {body}", socket.display());
    Ok(body.to_owned())
}
