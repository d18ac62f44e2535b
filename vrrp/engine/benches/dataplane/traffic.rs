//! Packets and connections from the client to the pod, as fast as they go.

use std::io::{IoSlice, IoSliceMut, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, recvmmsg, sendmmsg};
use socket2::SockRef;

use crate::lab::LIMIT;
use crate::scene::{Core, Path, Scene};
use crate::shared::used;

/// UDP flows of a measurement.
const FLOWS: usize = 16;
/// Threads of the client that open connections.
const CONNECTORS: usize = 8;
/// Datagrams of a system call.
const BATCH: usize = 32;
/// Bytes of each datagram: those of the smallest Ethernet frame.
const LENGTH: usize = 18;
/// Time between two looks of the pod at its queue: being woken for single datagrams would cost the processor that sends.
const LOOK: Duration = Duration::from_millis(1);

/// Result of one measurement.
pub(crate) struct Figures {
    /// Packets a second: of UDP those that the pod received, of TCP those that the node received.
    pub(crate) packets_s: f64,
    /// Connections a second that were opened and closed; `None` for UDP.
    pub(crate) connections_s: Option<f64>,
    /// CPU time for each of the packets, in microseconds.
    pub(crate) us_per_packet: f64,
}

/// Sends datagrams in one direction, and counts those that the pod receives.
pub(crate) fn udp(scene: &Scene, path: Path, time: Duration) -> Figures {
    let flows: Vec<UdpSocket> = (0..FLOWS).map(|number| flow(scene, path, number)).collect();
    let (datagrams, stop) = (&scene.datagrams, AtomicBool::new(false));
    let (begin, before) = (Instant::now(), used());
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(datagrams, &stop));
        let sent = scope.spawn(|| send(&flows, time)).join().unwrap();
        stop.store(true, Ordering::Relaxed);
        (sent, receiver.join().unwrap())
    });
    let (elapsed, cpu) = (begin.elapsed(), used().saturating_sub(before));
    if received < sent {
        println!("bench: {} of {sent} datagrams were lost", sent - received);
    }
    Figures {
        packets_s: rate(received, elapsed),
        connections_s: None,
        us_per_packet: micros_of_each(cpu, received),
    }
}

/// Returns a socket of the client whose flow the node's kernel knows in both directions: the pod has answered. A director knows no flow.
fn flow(scene: &Scene, path: Path, number: usize) -> UdpSocket {
    let destination = scene.destination(path, number, FLOWS);
    let socket = scene.client.run(move || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.connect(destination).unwrap();
        socket
    });
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    for _ in 0..2 {
        socket.send(b"?").unwrap();
        let (_, from) = scene.datagrams.recv_from(&mut [0; LENGTH]).unwrap();
        if scene.is_director && path == Path::Service {
            continue;
        }
        scene.datagrams.send_to(b"!", from).unwrap();
        socket.recv(&mut [0; LENGTH]).unwrap();
    }
    socket
}

/// Sends on each flow in turn; returns the number of datagrams.
fn send(flows: &[UdpSocket], time: Duration) -> u64 {
    Core::Client.pin();
    let payload = [0; LENGTH];
    let slices = [[IoSlice::new(&payload)]; BATCH];
    let no_control: [ControlMessage<'_>; 0] = [];
    let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
    let (end, mut sent) = (Instant::now() + time, 0);
    for flow in flows.iter().cycle() {
        let socket = flow.as_raw_fd();
        let batch = sendmmsg(socket, &mut headers, &slices, [None; BATCH], no_control, MsgFlags::empty());
        sent += batch.unwrap().count() as u64;
        if Instant::now() >= end {
            break;
        }
    }
    sent
}

/// Receives until nothing is queued after the stop; returns the number of datagrams.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> u64 {
    Core::Pod.pin();
    let (mut received, mut buffers) = (0, [[0; LENGTH]; BATCH]);
    let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        loop {
            let mut slices = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
            let flags = MsgFlags::MSG_DONTWAIT;
            match recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, flags, None) {
                Ok(batch) => received += batch.count() as u64,
                Err(Errno::EAGAIN) => break,
                Err(error) => panic!("receive datagrams: {error}"),
            }
        }
        if is_last {
            return received;
        }
        thread::sleep(LOOK);
    }
}

/// Opens connections that the pod closes immediately, and counts the packets that the node receives in both directions.
pub(crate) fn tcp(scene: &Scene, path: Path, time: Duration) -> Figures {
    let (begin, before, packets_before) = (Instant::now(), used(), scene.received_by_node());
    let connectors: Vec<JoinHandle<u64>> = (0..CONNECTORS)
        .map(|number| {
            let destination = scene.destination(path, number, CONNECTORS);
            scene.client.run(move || thread::spawn(move || connect(destination, time)))
        })
        .collect();
    let connections = connectors.into_iter().map(|thread| thread.join().unwrap()).sum();
    let (elapsed, cpu) = (begin.elapsed(), used().saturating_sub(before));
    let packets = scene.received_by_node() - packets_before;
    Figures {
        packets_s: rate(packets, elapsed),
        connections_s: Some(rate(connections, elapsed)),
        us_per_packet: micros_of_each(cpu, packets),
    }
}

/// Opens one connection after the other; returns their number. Each is reset after the pod has closed it, so that no end keeps its port.
fn connect(destination: SocketAddrV4, time: Duration) -> u64 {
    Core::Client.pin();
    let (end, mut connections) = (Instant::now() + time, 0);
    while Instant::now() < end {
        let mut stream = TcpStream::connect(destination).unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the pod sends nothing");
        connections += 1;
    }
    connections
}

#[expect(clippy::cast_precision_loss, reason = "numbers of packets are far below 2^52")]
fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of packets are far below 2^52")]
fn micros_of_each(cpu: Duration, count: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / count as f64
}
