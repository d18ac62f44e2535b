//! Running a program, without a shell. It and all that it started are ended when its time is over.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout_at;

use super::{Within, words};

/// Number of bytes that are kept of the end of its output.
const MOST: usize = 4096;

/// Runs the program; succeeds if it ends with exit code 0. `words`: its path and its arguments.
pub(crate) async fn run(words: &[String], within: Within) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("no program is named".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it starts can be ended with it.
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
    let group = Group::of(&child);
    let (mut out, mut err) = (Tail::default(), Tail::default());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let status = {
        let read = async { tokio::join!(out.read(stdout), err.read(stderr)) };
        tokio::pin!(read);
        let mut all_read = false;
        let ended = async {
            loop {
                tokio::select! {
                    status = child.wait() => break status,
                    _ = &mut read, if !all_read => all_read = true,
                }
            }
        };
        let status = timeout_at(within.end(), ended).await;
        // What it left behind is ended, too: else each attempt would leave some more.
        drop(group);
        if !all_read {
            // Of what escaped its group nobody waits for the end.
            let _ = timeout_at(within.end(), read).await;
        }
        status
    };
    let said =
        err.last_line().or_else(|| out.last_line()).map(|line| format!(": {line}")).unwrap_or_default();
    match status {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("it ended with {}{said}", ending(status))),
        Ok(Err(error)) => Err(format!("cannot wait for {program}: {error}")),
        Err(_) => Err(format!("it did not end within {:?}{said}", within.limit())),
    }
}

fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

/// The processes of a program, which are ended with their owner.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        // Never 0 or 1, which would mean other processes than these.
        let id = child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1);
        Self(id.map(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It need not have a process any more.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// The end of what a program prints.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.0.extend_from_slice(buffer.get(..length).unwrap_or_default());
            let excess = self.0.len().saturating_sub(MOST);
            self.0.drain(..excess);
        }
    }

    fn last_line(&self) -> Option<String> {
        words::last_line(&self.0)
    }
}
