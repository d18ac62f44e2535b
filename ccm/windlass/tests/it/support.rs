//! Running the binary.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Limit of every wait: far more than any needs on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_windlass");

/// The binary with an environment that knows nothing of a cluster.
pub(crate) fn windlass() -> Command {
    clean(Command::new(BINARY))
}

fn clean(mut command: Command) -> Command {
    for name in ["KUBECONFIG", "NODE_NAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "RUST_LOG"]
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn output(args: &[&str]) -> Output {
    windlass().args(args).output().unwrap()
}

/// Whether tests that need root can run. Without it they are skipped with a word, except where CI promised it.
pub(crate) fn have_root(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "{test} needs root, and CI=true promises it"
    );
    eprintln!("{test} is skipped: it needs root (raw sockets, network namespaces)");
    false
}

/// A folder that goes with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("windlass-it-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A kubeconfig of a server that refuses connections: port 1 (tcpmux) of loopback.
    pub(crate) fn unreachable_kubeconfig(&self) -> String {
        self.file(
            "unreachable.conf",
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
             users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n",
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process whose log lines can be waited for. Killed with its owner.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    log: String,
}

impl Running {
    /// Starts `command`, which is or becomes (exec) the binary.
    pub(crate) fn start(command: Command) -> Self {
        let mut child = clean(command).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, log: String::new() }
    }

    /// Waits for a log line that contains all of `parts`.
    pub(crate) fn await_line(&mut self, parts: &[&str]) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no log line with {parts:?} within {LIMIT:?}; the log:\n{}", self.log);
            };
            self.log.push_str(&line);
            self.log.push('\n');
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
        }
    }

    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGTERM).unwrap();
        let end = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "still running {LIMIT:?} after SIGTERM; the log:\n{}", self.log);
            std::thread::yield_now();
        };
        while let Ok(line) = self.lines.recv() {
            self.log.push_str(&line);
            self.log.push('\n');
        }
        (status, std::mem::take(&mut self.log))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
