//! The engine's transport: its sender, receiver and envelopes on a socket each.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use windlass_kernel::{clock, receive_buffer};
use windlass_vrrp::Time;
use windlass_vrrp::replication::{
    Connection, Connections, Envelopes, Epoch, MAX_DATAGRAM, Message, Receiver, ReceiverConfig, Sender,
    SenderConfig, Way,
};

use super::{ACTIVE, BACKUP, PORT, Sink, Source, envelopes, ip, vip, way, way_back};
use crate::lab::Lan;

struct UdpSource {
    socket: Socket,
    sender: Sender,
}

struct UdpSink {
    socket: Socket,
    receiver: Receiver,
}

struct Socket {
    socket: UdpSocket,
    envelopes: Envelopes,
}

pub(super) fn open(lan: &Lan, now: Time) -> (Box<dyn Source>, Box<dyn Sink + Send>) {
    let vips = || Arc::new([vip(0).into()].into());
    let epoch = Epoch { start: clock::wall_nanos(), random: 1 };
    let sender = Sender::new(epoch, SenderConfig::default(), vips(), now);
    let receiver = Receiver::new(7, ReceiverConfig::default(), vips(), now);
    (
        Box::new(UdpSource { socket: Socket::open(lan, ACTIVE, BACKUP), sender }),
        Box::new(UdpSink { socket: Socket::open(lan, BACKUP, ACTIVE), receiver }),
    )
}

impl Socket {
    fn open(lan: &Lan, own: usize, peer: usize) -> Self {
        let socket = lan.hosts[own].run(move || UdpSocket::bind((ip(own), PORT)).unwrap());
        receive_buffer::enlarge(&socket, 4 << 20).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect((ip(peer), PORT)).unwrap();
        Self { socket, envelopes: envelopes() }
    }

    fn receive(&self, way: Way) -> Option<Message> {
        let mut buffer = [0; MAX_DATAGRAM + 1];
        // An error of a peer that is not there yet is passed over, too.
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(self.envelopes.open(&buffer[..length], way).unwrap())
    }

    fn send(&self, message: Vec<u8>, way: Way) {
        let _ = self.socket.send(&self.envelopes.close(message, way));
    }
}

impl Source for UdpSource {
    fn changed(&mut self, connection: &Connection, now: Time) {
        self.sender.added(connection, now);
    }

    fn turn(&mut self, table: &Connections, now: Time) -> Time {
        while let Some(message) = self.socket.receive(way_back()) {
            self.sender.receive(&message, now);
        }
        while let Some(message) = self.sender.poll_transmit(table, now) {
            self.socket.send(message, way());
        }
        self.sender.poll_timeout()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.socket.as_fd()
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn is_acknowledged(&self) -> bool {
        self.sender.is_told()
    }
}

impl Sink for UdpSink {
    fn turn(&mut self, now: Time) -> Option<Time> {
        while let Some(message) = self.socket.receive(way()) {
            self.receiver.receive(message, now);
        }
        self.receiver.handle_timeout(now);
        while let Some(message) = self.receiver.poll_transmit(now) {
            self.socket.send(message, way_back());
        }
        self.receiver.poll_timeout()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.socket.as_fd()
    }

    fn replicas(&self) -> &Connections {
        self.receiver.connections()
    }

    fn is_in_sync(&self, now: Time) -> bool {
        self.receiver.is_in_sync(now)
    }
}
