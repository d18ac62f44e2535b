//! A way from the host to the lab's API server: connections to a port of 127.0.0.1 are carried into the lab.

use std::{
    io,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
};

use anyhow::Context as _;

use crate::{lab::Lab, sandbox::Entrance, tools};

/// A port on the host, bound before the lab's thread leaves the host's network namespace.
#[derive(Debug)]
pub struct HostPort {
    listener: TcpListener,
}

impl HostPort {
    /// Binds a free port of 127.0.0.1. Call it on a thread that is in the host's network namespace.
    pub fn bind() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a port of 127.0.0.1")?;
        Ok(Self { listener })
    }
}

impl Lab {
    /// Carries connections to `port` to the API server, until the process ends, and returns the path of an admin's
    /// kubeconfig for the host.
    pub fn forward_api_server(&self, port: HostPort) -> anyhow::Result<PathBuf> {
        let entrance = Arc::new(Entrance::new(&self.sandbox, "cp")?);
        let server = self.options.api_address(&self.hosts)?;
        let kubeconfig = self.pki.forwarded_kubeconfig(port.listener.local_addr()?.port())?;
        tools::give_back(self.folder())?;
        thread::Builder::new().name("forward".into()).spawn(move || {
            for connection in port.listener.incoming().flatten() {
                let entrance = Arc::clone(&entrance);
                // What fails here, the client sees as a closed connection.
                let _ = thread::Builder::new().spawn(move || carry(connection, server, &entrance));
            }
        })?;
        Ok(kubeconfig)
    }
}

/// Copies both ways until either side ends.
fn carry(outside: TcpStream, server: Ipv4Addr, entrance: &Entrance) -> anyhow::Result<()> {
    entrance.enter()?;
    let inside = TcpStream::connect((server, 6443))?;
    let (mut from_outside, mut to_inside) = (outside.try_clone()?, inside.try_clone()?);
    let upstream = thread::spawn(move || {
        let _ = io::copy(&mut from_outside, &mut to_inside);
        let _ = to_inside.shutdown(Shutdown::Write);
    });
    let (mut from_inside, mut to_outside) = (inside, outside);
    let _ = io::copy(&mut from_inside, &mut to_outside);
    let _ = to_outside.shutdown(Shutdown::Both);
    let _ = upstream.join();
    Ok(())
}
