//! The PID and mount namespaces that hold a whole lab, so that all of it ends with the process that owns it.
//!
//! ```text
//!   this process ──pipe──► unshare ──► init (bash, init.sh) ──► etcd, kube-apiserver, kubelet, containerd, agents …
//! ```
//! Nothing of the lab is in another PID namespace, so the end of init ends everything: a SIGKILL of this process closes
//! the pipe, init reads its end and exits. Commands that come and go enter by `nsenter`.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::cgroups::Cgroup;

/// The namespaces of one lab and the pipe to their init.
pub(crate) struct Sandbox {
    unshare: Child,
    /// Init's process id as this process sees it.
    init: Pid,
    pipe: Mutex<Option<Pipe>>,
    logs: PathBuf,
}

struct Pipe {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Joins the cgroups that are to be the roots of a cgroup namespace, if any, and becomes unshare(1): `$1` init's script, `$2`
/// the folder of the logs, `$3` the present cgroup namespace, then the cgroups.
const UNSHARE: &str = r#"
init=$1 logs=$2 own=$3
shift 3
for cgroup; do echo 0 >"$cgroup/cgroup.procs"; done
exec unshare --fork --pid --mount --mount-proc --kill-child ${1+--cgroup} -- bash -c "$init" windlass-lab "$logs" "$own"
"#;

impl Sandbox {
    /// Makes the namespaces, a cgroup namespace too if there are cgroups; logs of what runs in them go to `logs`.
    pub(crate) fn start(logs: &Path, cgroup: &Cgroup) -> anyhow::Result<Self> {
        let complaints = logs.join("init.log");
        let own_cgroups =
            fs::read_link("/proc/self/ns/cgroup").context("this kernel has no cgroup namespaces")?;
        // In a session of its own: Ctrl-C ends the owner, and the lab then ends in an orderly way; and the kernel shares the
        // processors out among sessions, so that a lab whose processors are busy takes no time from those beside it.
        let mut unshare = Command::new("setsid")
            .args(["sh", "-ec", UNSHARE, "sh", include_str!("init.sh")])
            .arg(logs)
            .arg(own_cgroups)
            .args(cgroup.roots())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).with_context(|| format!("writing {}", complaints.display()))?)
            .spawn()
            .context("starting setsid(1), of the package util-linux")?;
        let (Some(requests), Some(answers)) = (unshare.stdin.take(), unshare.stdout.take()) else {
            bail!("unshare(1) was started without pipes");
        };
        let mut pipe = Pipe { requests, answers: BufReader::new(answers) };
        let first = pipe.answer();
        if first.as_deref().ok() != Some("ready") {
            let _ = unshare.wait();
            let why = fs::read_to_string(&complaints).unwrap_or_default();
            bail!("the lab's PID and mount namespaces could not be made: {}", why.trim());
        }
        let outer = Pid::from_raw(unshare.id().cast_signed());
        let init = children(outer)?.first().copied().context("the lab's first process ended at once")?;
        for pid in [outer, init] {
            cgroup.move_below(pid)?;
        }
        Ok(Self { unshare, init, pipe: Mutex::new(Some(pipe)), logs: logs.to_path_buf() })
    }

    /// Starts a process in the network namespace `netns`, its output appended to `log` (a name within the folder of the
    /// logs), and returns its id within the lab.
    pub(crate) fn spawn(&self, netns: &str, log: &str, command: &[String]) -> anyhow::Result<i32> {
        let mut line = format!("start {} {}", quoted(netns), quoted(log));
        for word in command {
            let _ = write!(line, " {}", quoted(word));
        }
        let answer = self.ask(&line)?;
        answer.parse().with_context(|| format!("the lab's init answered {answer:?} to a start request"))
    }

    /// A command within the lab, in network namespace `netns` or else the host's, to be run by the caller.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, netns: Option<&str>, command: &[S]) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--mount", "--pid", "--target", &self.init.to_string()]);
        if let Some(netns) = netns {
            nsenter.arg(format!("--net={}", self.netns_path(netns)));
        }
        nsenter.arg("--").args(command);
        nsenter
    }

    /// Runs a shell script within the lab and returns what it prints.
    pub(crate) fn script(&self, script: &str) -> anyhow::Result<String> {
        let output = self.command(None, &["sh", "-ec", script]).output().context("starting nsenter(1)")?;
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}", output.status, complaints.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Moves the calling thread, and the threads and processes it will start, into the network namespace.
    pub(crate) fn enter(&self, netns: &str) -> anyhow::Result<()> {
        Entrance::new(self, netns)?.enter()
    }

    /// Process id, as this process sees it, of process `inner` that [`Self::spawn`] started; `None` once it ended.
    pub(crate) fn outer(&self, inner: i32) -> Option<Pid> {
        let inner = inner.to_string();
        children(self.init).ok()?.into_iter().find(|pid| {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
            let field =
                |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default().trim();
            // A killed process is a zombie while its other threads, which still hold its sockets, are ending.
            let ended = field("State:").starts_with('Z') && matches!(field("Threads:"), "0" | "1");
            field("NSpid:").split_whitespace().last() == Some(&inner) && !ended
        })
    }

    /// Sends a signal to a process that [`Self::spawn`] started.
    pub(crate) fn signal(&self, inner: i32, signal: Signal) -> anyhow::Result<()> {
        let pid = self.outer(inner).with_context(|| format!("process {inner} of the lab has ended"))?;
        kill(pid, signal).with_context(|| format!("sending {signal} to process {pid}"))
    }

    /// The processes of the lab that satisfy `is_meant` and all their descendants, whatever namespaces those made, as this
    /// process sees them.
    pub(crate) fn processes(&self, is_meant: impl Fn(Pid) -> bool) -> Vec<Pid> {
        // Every process of the lab descends from init; an orphan becomes init's child.
        let mut met = vec![(self.init, false)];
        let mut next = 0;
        while let Some(&(pid, parent_meant)) = met.get(next) {
            let meant = parent_meant || is_meant(pid);
            met[next].1 = meant;
            met.extend(children(pid).unwrap_or_default().into_iter().map(|child| (child, meant)));
            next += 1;
        }
        met.into_iter().filter(|(_, meant)| *meant).map(|(pid, _)| pid).collect()
    }

    /// The folder of the logs, on the host.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Init's process id on the host.
    pub(crate) fn init(&self) -> i32 {
        self.init.as_raw()
    }

    /// Returns the path at which this process finds a file of the lab's mount namespace.
    pub(crate) fn path(&self, inside: &str) -> String {
        format!("/proc/{}/root{inside}", self.init)
    }

    fn netns_path(&self, netns: &str) -> String {
        self.path(&format!("/run/netns/{netns}"))
    }

    fn ask(&self, line: &str) -> anyhow::Result<String> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_mut().context("the lab has ended")?;
        ensure!(!line.contains('\n'), "a command of the lab cannot contain a line break: {line}");
        writeln!(pipe.requests, "{line}").context("the lab's init has ended")?;
        pipe.answer()
    }

    /// Ends everything and waits until it is gone.
    pub(crate) fn stop(&mut self) {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
        let limit = Instant::now() + Duration::from_secs(20);
        while matches!(self.unshare.try_wait(), Ok(None)) {
            if Instant::now() > limit {
                let _ = self.unshare.kill(); // and init with it, by --kill-child
                let _ = self.unshare.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pipe {
    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).context("reading from the lab's init")?;
        if read == 0 { Err(anyhow!("the lab's init has ended")) } else { Ok(line.trim_end().to_owned()) }
    }
}

/// An open network namespace of a lab, which other threads can enter.
#[derive(Debug)]
pub(crate) struct Entrance {
    name: String,
    namespace: File,
}

impl Entrance {
    /// Opens the network namespace `netns`.
    pub(crate) fn new(sandbox: &Sandbox, netns: &str) -> anyhow::Result<Self> {
        let namespace = File::open(sandbox.netns_path(netns))
            .with_context(|| format!("the lab has no network namespace {netns:?}"))?;
        Ok(Self { name: netns.to_owned(), namespace })
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("entering the network namespace {}", self.name))
    }
}

/// The child processes of `pid`, of all its threads.
fn children(pid: Pid) -> anyhow::Result<Vec<Pid>> {
    let tasks = format!("/proc/{pid}/task");
    let mut found = Vec::new();
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        // A thread may end while we look; a kernel without CONFIG_PROC_CHILDREN has no such file at all.
        let Ok(text) = fs::read_to_string(task?.path().join("children")) else { continue };
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    Ok(found)
}

/// `word` as one word of a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
