//! Network namespaces for tests, of this crate and of those above it.

use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{geteuid, gettid};
use windlass_kernel::netlink::RouteSocket;

/// Returns true if the test can run here. Without root it prints a message and the test is skipped, but it panics where CI=true: a
/// skipped test there would pass for a good one.
pub(crate) fn require_root() -> bool {
    if geteuid().is_root() {
        return true;
    }
    assert!(
        std::env::var("CI").is_err(),
        "this test makes network namespaces and needs root; CI=true, so it must not be skipped: run as root"
    );
    eprintln!("skipped: makes network namespaces and needs root (run with sudo)");
    false
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace.
pub(crate) struct Host {
    jobs: Sender<Job>,
    tid: i32,
}

impl Host {
    pub(crate) fn new() -> Self {
        let (jobs, inbox) = channel::<Job>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("unshare(CLONE_NEWNET)");
            tell.send(gettid().as_raw()).unwrap();
            for job in inbox {
                job();
            }
        });
        Self { jobs, tid: told.recv().expect("the host's thread") }
    }

    /// Names the namespace to `ip`.
    pub(crate) fn tid(&self) -> i32 {
        self.tid
    }

    /// Runs `job` in the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).expect("the host's thread");
        told.recv().expect("the job panicked")
    }

    /// Runs `ip` with these arguments in the namespace.
    pub(crate) fn ip(&self, arguments: &str) {
        let line = arguments.to_owned();
        let output = self.run(move || Command::new("ip").args(line.split(' ')).output().expect("run `ip`"));
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Runs `body` in a new network namespace that goes when it ends. Without root it is skipped, but fails where CI=true.
pub(crate) fn in_namespace(body: impl FnOnce() + Send + 'static) {
    if !require_root() {
        return;
    }
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        body();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Adds an Ethernet interface, up (its other end is not), and returns its index.
pub(crate) fn add_interface(route: &mut RouteSocket, name: &str) -> u32 {
    let mut link = LinkMessage::default();
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
    ];
    route.request(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL).unwrap();
    let links = route.links().unwrap().entries;
    links.into_iter().find(|link| link.name == name).expect("the new interface is listed").index
}

/// Bytes from their hexadecimal form; other characters between them are passed over.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}
