//! Foreign daemons in a host's namespace, and their files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, User};

use crate::lab::{Host, await_some};

/// A directory that goes with its owner.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("windlass-interop-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.0.join(name), content).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.path(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Gives the directory to this user.
    pub(crate) fn give_to(&self, user: &str) {
        let user = User::from_name(user).unwrap().expect("the user that the package makes");
        chown(&self.0, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon, leader of a process group of its own. It dies with this value, and with the test's process however that ends.
pub(crate) struct Daemon {
    child: Child,
    /// Waits for the end of a pipe that only this process holds, then kills the group and removes its files: the kernel's
    /// parent-death signal would be forgotten when the daemon changes its user.
    leash: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it on the host; what it prints goes to the file `name.log`.
    pub(crate) fn start(host: &Host, scratch: &TempDir, name: &str, command: &[&str]) -> Self {
        let log = PathBuf::from(scratch.path(&format!("{name}.log")));
        let output = File::create(&log).unwrap();
        let words: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let directory = scratch.path("");
        let (child, leash) = host.run(move || {
            let child = Command::new(&words[0])
                .args(&words[1..])
                .stdin(Stdio::null())
                .stdout(output.try_clone().unwrap())
                .stderr(output)
                .process_group(0)
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}", words[0]));
            let leash = Command::new("/bin/sh")
                .args([
                    "-c",
                    "read -r _; kill -s KILL -- -\"$0\"; rm -r \"$1\"",
                    &child.id().to_string(),
                    &directory,
                ])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .expect("/bin/sh");
            (child, leash)
        });
        Self { child, leash, log }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Kills it and its children without a chance to say goodbye.
    pub(crate) fn sigkill(&mut self) {
        // Once waited for, the id may be another's.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(&mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        await_some("end of the daemon", || self.child.try_wait().unwrap());
    }

    /// Sends a signal to it and its children.
    pub(crate) fn signal(&self, signal: Signal) {
        killpg(self.pid(), signal).unwrap();
    }

    /// Output of a command in the daemon's namespace.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        let pid = self.child.id().to_string();
        let output = Command::new("nsenter").args(["-t", &pid, "-n"]).args(command).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }

    /// Output of `ip` with these arguments in the daemon's namespace.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        self.run(&[&["ip"], arguments].concat())
    }

    /// All that it has printed.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The first and the last lines it printed, each once: they tell of the start and of the end.
    fn told(&self) -> String {
        let told = self.printed();
        let mut seen = HashSet::new();
        let lines: Vec<_> = told.lines().filter(|line| seen.insert(*line)).collect();
        let (first, last) = lines.split_at(lines.len().min(25));
        [first, &last[last.len().saturating_sub(25)..]].concat().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{} ended with:\n{}\n{}",
                self.log.display(),
                self.told(),
                self.ip(&["-d", "-s", "address"])
            );
        }
        let _ = self.leash.kill();
        let _ = self.leash.wait();
        self.sigkill();
    }
}

/// Waits until a process of the host listens to protocol 112.
pub(crate) fn await_listener(host: &Host, ipv6: bool) {
    let file = if ipv6 { "/proc/thread-self/net/raw6" } else { "/proc/thread-self/net/raw" };
    await_some("router that listens", || {
        // 0x70 is 112, where other protocols have the port.
        let table = host.run(move || fs::read_to_string(file).unwrap());
        table.contains(":0070 ").then_some(())
    });
}

/// Whether a program is installed.
pub(crate) fn there(program: &str) -> bool {
    Path::new(program).exists()
}
