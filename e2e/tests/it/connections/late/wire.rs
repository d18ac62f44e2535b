//! A wire that is bad for the replication of connections alone. The kernel's netem holds up all that is sent, adverts too, and not every
//! kernel has it: here the kernel queues the datagrams (NFQUEUE), and is told when each may go, if at all.
//!
//! Layout: `linux/netfilter/nfnetlink_queue.h`.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
    },
};
use windlass_e2e::Lab;

/// For how long a datagram is held up, drawn for each: so they overtake each other.
const HELD_UP: std::ops::Range<u64> = 20..120;
/// One of so many is lost.
const LOST: u64 = 5;
/// One of so many comes twice.
const TWICE: u32 = 3;

/// Messages of the queue: it tells of a packet, is told what becomes of one, is set up.
const PACKET: u16 = 3 << 8;
const VERDICT: u16 = 3 << 8 | 1;
const CONFIGURE: u16 = 3 << 8 | 2;
const REQUEST: u16 = 1;
/// Before the attributes.
const HEADERS: usize = 20;

/// What a wire has done.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Carried {
    pub(super) passed: u64,
    pub(super) lost: u64,
    /// Those that came after one that was sent later.
    pub(super) overtaken: u64,
}

/// What one node tells another goes by it.
pub(super) struct BadWire {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Carried>>,
}

impl BadWire {
    /// Between these nodes, in this direction.
    pub(super) async fn from(lab: &Lab, node: &str, peer: &str) -> anyhow::Result<Self> {
        let queue = lab.within(node, open)?.context("opening a queue of packets")?;
        let script = format!(
            "iptables-legacy -t mangle -A POSTROUTING -o eth0 -p udp --dport 10112 -j NFQUEUE --queue-num 0
             nft 'table ip twice {{
               chain outgoing {{
                 type filter hook output priority 0
                 udp dport 10112 numgen inc mod {TWICE} == 0 dup to {} device eth0
               }}
             }}'",
            lab.node(peer)?.address()
        );
        lab.exec(node, &["sh", "-ec", &script]).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("bad-wire".into()).spawn(move || carry(&queue, &stopped))?;
        Ok(Self { stop, thread })
    }

    /// Nothing is carried any more.
    pub(super) fn end(self) -> anyhow::Result<Carried> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a bad wire panicked"))?
    }
}

/// The queue of the calling thread's network namespace that has the number 0.
fn open() -> nix::Result<OwnedFd> {
    const BIND: [u8; 4] = [1, 0, 0, 0];
    const ONLY_NUMBERS: [u8; 5] = [0, 0, 0, 0, 1];
    let (family, protocol) = (AddressFamily::Netlink, SockProtocol::NetlinkNetFilter);
    let queue = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, protocol)?;
    bind(queue.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    send(&queue, &message(CONFIGURE, 1, &BIND))?;
    send(&queue, &message(CONFIGURE, 2, &ONLY_NUMBERS))?;
    Ok(queue)
}

/// With one attribute.
fn message(kind: u16, attribute: u16, value: &[u8]) -> Vec<u8> {
    let length = HEADERS + 4 + value.len();
    let mut bytes = Vec::with_capacity(length + 3);
    bytes.extend(u32::try_from(length.next_multiple_of(4)).unwrap_or_default().to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Sequence and port; then family, version, and the queue's number.
    bytes.extend([0; 12]);
    bytes.extend(u16::try_from(4 + value.len()).unwrap_or_default().to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

fn send(queue: &OwnedFd, bytes: &[u8]) -> nix::Result<()> {
    sendto(queue.as_raw_fd(), bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty()).map(drop)
}

/// The number of the packet that a message is of: in its first attribute.
fn number(message: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let number = u32::from_be_bytes(message.get(HEADERS + 4..HEADERS + 8)?.try_into().ok()?);
    (kind == PACKET).then_some(number)
}

fn carry(queue: &OwnedFd, stopped: &AtomicBool) -> anyhow::Result<Carried> {
    let mut carried = Carried::default();
    let mut held_up: BTreeSet<(Instant, u32)> = BTreeSet::new();
    let (mut latest, mut buffer) = (0, [0; 4096]);
    while !stopped.load(Ordering::Relaxed) {
        let mut readable = [PollFd::new(queue.as_fd(), PollFlags::POLLIN)];
        // A millisecond is what the times are held up by at least.
        poll(&mut readable, PollTimeout::from(if held_up.is_empty() { 50_u8 } else { 1 }))?;
        loop {
            match recv(queue.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => {
                    let Some(packet) = number(&buffer[..length]) else { continue };
                    let drawn = drawn(packet);
                    let time = HELD_UP.start + drawn % (HELD_UP.end - HELD_UP.start);
                    held_up.insert((Instant::now() + Duration::from_millis(time), packet));
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(error) => return Err(error).context("reading a queue of packets"),
            }
        }
        while let Some((due, packet)) = held_up.first().copied().filter(|(due, _)| *due <= Instant::now()) {
            held_up.remove(&(due, packet));
            let is_lost = (drawn(packet) >> 32).is_multiple_of(LOST);
            let verdict = [u32::from(!is_lost).to_be_bytes(), packet.to_be_bytes()].concat();
            send(queue, &message(VERDICT, 2, &verdict)).context("letting a packet go")?;
            if is_lost {
                carried.lost += 1;
            } else {
                carried.passed += 1;
                carried.overtaken += u64::from(packet < latest);
                latest = latest.max(packet);
            }
        }
    }
    Ok(carried)
}

/// A number for each packet, without an order (SplitMix64).
fn drawn(packet: u32) -> u64 {
    let mut number = (u64::from(packet) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
