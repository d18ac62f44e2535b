//! A node's echo server, and the client.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::lab::Host;
use crate::shared::{OBSERVER, real_time};

/// The argument that makes this program an echo server.
pub(crate) const ROLE: &str = "echo";
const PORT: u16 = 7;
/// Time between two requests.
const PACE: Duration = Duration::from_millis(1);

/// Answers on a VIP, whether this node has it or not yet. Arguments: the VIP, the number that answers bear.
pub(crate) fn serve(arguments: &[String]) {
    let [vip, number] = arguments else { panic!("echo: {arguments:?}: wanted are a VIP and a number") };
    let vip: IpAddr = vip.parse().expect("a VIP");
    let number: u8 = number.parse().expect("a number");
    let socket =
        Socket::new(if vip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, Type::DGRAM, None).unwrap();
    if vip.is_ipv4() { socket.set_freebind_v4(true) } else { socket.set_freebind_v6(true) }.unwrap();
    socket.bind(&SocketAddr::new(vip, PORT).into()).expect("bind the VIP");
    let socket = UdpSocket::from(socket);
    let mut buffer = [0; 64];
    loop {
        // Errors are those of earlier answers.
        if let Ok((length, client)) = socket.recv_from(&mut buffer) {
            buffer[length] = number;
            let _ = socket.send_to(&buffer[..=length], client);
        }
    }
}

/// What became of the requests. Room is kept: to get more would take time while requests wait.
#[derive(Default)]
struct Log {
    /// Number of the first request in it.
    first: usize,
    /// When each was sent, and whether it was answered.
    requests: Vec<(Instant, bool)>,
    /// When answers came, and from which node.
    answers: Vec<(Instant, u8)>,
}

/// Sends a request each millisecond and notes the answers, until it is dropped.
pub(crate) struct Client {
    log: Arc<Mutex<Log>>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Client {
    pub(crate) fn start(host: &Host, vip: IpAddr) -> Self {
        let socket = host.run(move || {
            let any = if vip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            UdpSocket::bind(any).expect("a UDP socket")
        });
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (log, end) = (Arc::new(Mutex::new(Log::default())), Arc::new(AtomicBool::new(false)));
        let sender = {
            let (log, end, socket) = (Arc::clone(&log), Arc::clone(&end), socket.try_clone().unwrap());
            std::thread::spawn(move || {
                real_time(OBSERVER);
                let mut due = Instant::now();
                while !end.load(Ordering::Relaxed) {
                    let sequence = {
                        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                        log.requests.push((Instant::now(), false));
                        log.first + log.requests.len() - 1
                    };
                    // A refused request counts as one that nobody answered.
                    let _ = socket.send_to(&sequence.to_be_bytes(), (vip, PORT));
                    due += PACE;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            })
        };
        let receiver = {
            let (log, end) = (Arc::clone(&log), Arc::clone(&end));
            std::thread::spawn(move || {
                real_time(OBSERVER);
                let mut buffer = [0; 64];
                while !end.load(Ordering::Relaxed) {
                    let Ok(9) = socket.recv(&mut buffer) else { continue };
                    let at = Instant::now();
                    let sequence = usize::from_be_bytes(buffer[..8].try_into().expect("eight bytes"));
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    // Of those that are forgotten there is none.
                    let index = sequence.checked_sub(log.first);
                    if let Some(request) = index.and_then(|index| log.requests.get_mut(index)) {
                        request.1 = true;
                    }
                    log.answers.push((at, buffer[8]));
                }
            })
        };
        Self { log, end, threads: vec![sender, receiver] }
    }

    /// Forgets what was before.
    pub(crate) fn forget(&self) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.first += log.requests.len();
        log.requests.clear();
        log.answers.clear();
    }

    /// Whether the last `count` answers came from this node, and after `since`.
    pub(crate) fn answered_by(&self, number: u8, count: usize, since: Instant) -> bool {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let last = log.answers.iter().rev().take(count).filter(|(at, from)| *at > since && *from == number);
        last.count() == count
    }

    /// Longest time between two answers of which the second came after `since`.
    pub(crate) fn longest_gap(&self, since: Instant) -> Duration {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let gaps = log.answers.windows(2).filter(|pair| pair[1].0 > since).map(|pair| pair[1].0 - pair[0].0);
        gaps.max().unwrap_or_default()
    }

    /// Requests sent until this moment, since the last [`Self::forget`], that nobody answered.
    pub(crate) fn unanswered(&self, until: Instant) -> usize {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.requests.iter().filter(|(at, answered)| !answered && *at <= until).count()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
