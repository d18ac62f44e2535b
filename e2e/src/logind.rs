//! Stand-in for systemd-logind. A kubelet receives its shutdown signal, and delays the shutdown until the node's pods have
//! ended. It serves as much of D-Bus as a kubelet uses: one connection, four calls, one signal.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, ensure};
use socket2::SockRef;

/// As long as a kubelet may want to hold up a shutdown, in microseconds.
const INHIBIT_DELAY_MAX: u64 = 60_000_000;
/// The number of the file by which a kubelet holds it up: it closes that, and this one is none of its own.
const NO_FILE: u32 = 1_000_000;
const METHOD_RETURN: u8 = 2;
const SIGNAL: u8 = 4;

/// The logind of a node. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Logind {
    listener: UnixListener,
    connections: Arc<Mutex<Vec<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Logind {
    /// Waits for kubelets at this socket.
    pub(super) fn listen(path: &str) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(path).with_context(|| format!("listening at {path}"))?;
        let connections = Arc::<Mutex<Vec<UnixStream>>>::default();
        let (incoming, known) = (listener.try_clone()?, Arc::clone(&connections));
        let thread = thread::Builder::new().name("logind".into()).spawn(move || {
            for stream in incoming.incoming().map_while(Result::ok) {
                let Ok(kept) = stream.try_clone() else { continue };
                locked(&known).push(kept);
                // It ends with the kubelet.
                let _ = thread::Builder::new().name("logind".into()).spawn(move || serve(stream));
            }
        })?;
        Ok(Self { listener, connections, thread: Some(thread) })
    }

    /// Tells the kubelet that the machine is going down, or is not any more.
    pub(super) fn prepare_for_shutdown(&self, active: bool) -> anyhow::Result<()> {
        let fields = [
            field(1, 'o', &string("/org/freedesktop/login1")),
            field(2, 's', &string("org.freedesktop.login1.Manager")),
            field(3, 's', &string("PrepareForShutdown")),
            field(8, 'g', &signature("b")),
        ];
        let signal = message(SIGNAL, &fields, &u32::from(active).to_le_bytes());
        let mut connections = locked(&self.connections);
        // Those of kubelets that have ended are gone.
        connections.retain_mut(|stream| stream.write_all(&signal).is_ok());
        ensure!(!connections.is_empty(), "no kubelet asked to be told of a shutdown");
        Ok(())
    }
}

impl Drop for Logind {
    fn drop(&mut self) {
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(connections: &Mutex<Vec<UnixStream>>) -> MutexGuard<'_, Vec<UnixStream>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers until the kubelet ends.
fn serve(mut stream: UnixStream) -> io::Result<()> {
    authenticate(&mut stream)?;
    loop {
        let call = Call::read(&mut stream)?;
        let (form, body) = match &*call.member {
            "Hello" => ("s", string(":1.1")),
            // The only property that is asked for: InhibitDelayMaxUSec. A number of 64 bits begins at a multiple of 8.
            "Get" => ("v", [&signature("t")[..], &[0; 5], &INHIBIT_DELAY_MAX.to_le_bytes()].concat()),
            "Inhibit" => ("u", NO_FILE.to_le_bytes().to_vec()),
            _ => ("", Vec::new()),
        };
        let fields = [field(5, 'u', &call.serial.to_le_bytes()), field(8, 'g', &signature(form))];
        stream.write_all(&message(METHOD_RETURN, &fields, &body))?;
    }
}

/// Believes whoever comes: the socket is the lab's own.
fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            // One of zero goes before the first line.
            line.extend(byte.iter().filter(|byte| **byte != 0));
        }
        let answer = match line.trim_ascii() {
            b"BEGIN" => return Ok(()),
            b"AUTH" => "REJECTED EXTERNAL\r\n",
            line if line.starts_with(b"AUTH EXTERNAL") => "OK 00000000000000000000000000000000\r\n",
            _ => "ERROR\r\n",
        };
        stream.write_all(answer.as_bytes())?;
    }
}

/// The parts of a message that are read.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    serial: u32,
    member: String,
}

impl Call {
    fn read(stream: &mut impl io::Read) -> io::Result<Self> {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let [body, serial, fields] = [4, 8, 12].map(|at| number(&head, at).unwrap_or_default());
        let mut fields = vec![0; fields.next_multiple_of(8) as usize];
        stream.read_exact(&mut fields)?;
        io::copy(&mut stream.take(body.into()), &mut io::sink())?;
        let member = member(&fields).ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
        Ok(Self { serial, member })
    }
}

/// The field of a message's header that names the method.
fn member(fields: &[u8]) -> Option<String> {
    let mut at = 0;
    loop {
        // A code, and the form of what follows, which is of one letter.
        let &[code, _, form, _] = fields.get(at..at + 4)? else { return None };
        let (begin, length) = match form {
            b's' | b'o' => (at + 8, number(fields, at + 4)? as usize),
            b'g' => (at + 5, usize::from(*fields.get(at + 4)?)),
            _ => (at + 4, 3),
        };
        if code == 3 {
            return String::from_utf8(fields.get(begin..begin + length)?.to_vec()).ok();
        }
        at = (begin + length + 1).next_multiple_of(8);
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A message with these fields, each of which begins at a multiple of 8.
fn message(kind: u8, fields: &[Vec<u8>], body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for field in fields {
        all.resize(all.len().next_multiple_of(8), 0);
        all.extend(field);
    }
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or_default().to_le_bytes();
    // Little-endian, no answer is expected, version 1; the serial is any but 0.
    let mut message = vec![b'l', kind, 1, 1];
    message.extend([length(body), 1_u32.to_le_bytes(), length(&all)].concat());
    message.extend(all);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend(body);
    message
}

fn field(code: u8, form: char, value: &[u8]) -> Vec<u8> {
    let form = signature(&form.to_string());
    [&[code][..], &form, value].concat()
}

fn string(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or_default();
    [&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

fn signature(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or_default();
    [&[length][..], text.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_specification_has_it_and_its_method_is_found() {
        let fields =
            [field(1, 'o', &string("/a")), field(8, 'g', &signature("s")), field(3, 's', &string("Hello"))];
        let sent = message(1, &fields, &string("x"));
        let expected = [
            &b"l\x01\x01\x01\x06\0\0\0\x01\0\0\0\x26\0\0\0"[..],
            b"\x01\x01o\0\x02\0\0\0/a\0\0\0\0\0\0",
            b"\x08\x01g\0\x01s\0\0",
            b"\x03\x01s\0\x05\0\0\0Hello\0\0\0",
            b"\x01\0\0\0x\0",
        ];
        assert_eq!(sent, expected.concat());
        let twice = [&sent[..], &sent].concat();
        let mut reader = &twice[..];
        for _ in 0..2 {
            let call = Call::read(&mut reader).expect("a call");
            assert_eq!(call, Call { serial: 1, member: "Hello".into() });
        }
        assert!(reader.is_empty());
    }
}
