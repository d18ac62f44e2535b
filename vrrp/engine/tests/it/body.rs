//! A test that runs as a process of its own, which another test kills or freezes.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::lab::Host;

/// The process. It is killed at the end.
pub(crate) struct Body {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    mark: &'static str,
}

impl Body {
    /// Starts the ignored test `name` on a host, with this value of the environment variable `mark`.
    pub(crate) fn start(host: &Host, name: &'static str, mark: &'static str, value: &str) -> Self {
        let value = value.to_owned();
        let mut child = host.run(move || {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--ignored", "--nocapture"])
                .env(mark, value)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, mark }
    }

    /// Waits for the next line with the mark, and returns the text after it.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("the process ended").unwrap();
            if let Some((_, told)) = line.split_once(self.mark) {
                return told.trim_start().to_owned();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits until the process has ended.
    pub(crate) fn await_end(&mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
