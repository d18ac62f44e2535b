//! The commands in the header of `examples/two_routers.rs`, run as a reader would type them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::lab::{Host, LIMIT, require_root};

/// Where the reader sits: on a file system that goes with the test.
const DESK: &str = "/run/desk";

/// The header's commands, one a line.
fn commands() -> Vec<&'static str> {
    let header = include_str!("../../examples/two_routers.rs").lines().filter_map(|l| l.strip_prefix("//!"));
    let mut inside = false;
    let mut commands = Vec::new();
    for line in header.map(str::trim) {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside => commands.push(command),
            _ => {}
        }
    }
    commands
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).current_dir(DESK);
    command
}

/// A router that was started in a terminal of its own. It ends with its standard input.
struct Terminal {
    router: Child,
    lines: Receiver<String>,
}

impl Terminal {
    fn start(line: &str) -> Self {
        let mut router = command(line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let output = BufReader::new(router.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { router, lines }
    }

    /// Waits for a line with this in it.
    fn await_line(&self, part: &str) {
        let deadline = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        while !seen.last().is_some_and(|line: &String| line.contains(part)) {
            let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
                panic!("no line with {part:?}: {seen:#?}");
            };
            seen.push(line);
        }
    }

    fn kill(mut self) {
        self.router.kill().unwrap();
        self.router.wait().unwrap();
    }

    /// Ctrl-D.
    fn end(mut self) {
        drop(self.router.stdin.take());
        assert!(self.router.wait().unwrap().success());
    }
}

/// The second takes over from the first that is killed, gives way to the first that is started again, and takes over when
/// that ends. Why they say they do depends on how busy the machine is.
fn play(first: &str, second: &str, address_of_first: &str) {
    let one = Terminal::start(first);
    one.await_line("active (the Active is silent)");
    let two = Terminal::start(second);
    two.await_line("backup (started)");
    one.kill();
    two.await_line("active (the Active is silent)");
    let one = Terminal::start(first);
    one.await_line("active (the Active ");
    two.await_line(&format!("backup ({address_of_first} is Active with priority 200)"));
    one.end();
    two.await_line("active (the Active ");
    two.end();
}

#[test]
fn the_commands_of_the_example_show_a_failover_in_both_families() {
    if !require_root() {
        return;
    }
    let binary = std::env::current_exe().unwrap();
    let built = binary.ancestors().nth(2).unwrap().to_owned();
    assert!(
        built.join("examples/two_routers").exists(),
        "the example is not built, which `cargo test` does, but not `cargo test --test`: {}",
        commands()[0]
    );
    Host::new().run(move || {
        // Named namespaces have their names in /run: in one of this thread alone they go with it.
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&Path>, "/", None::<&Path>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&Path>)
            .unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), None::<&Path>).unwrap();
        std::fs::create_dir_all(format!("{DESK}/target")).unwrap();
        symlink(built, format!("{DESK}/target/debug")).unwrap();
        let mut waiting = None;
        for line in commands().into_iter().skip(1) {
            if !line.contains("two_routers") {
                assert!(command(line).status().unwrap().success(), "{line}");
            } else if let Some(first) = waiting.replace(line) {
                play(first, line, if first.contains("fe80::1") { "fe80::1" } else { "192.0.2.1" });
                waiting = None;
            }
        }
        assert_eq!(waiting, None, "each first router has a second");
    });
}
