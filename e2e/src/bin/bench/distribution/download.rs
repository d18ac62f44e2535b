//! Downloads through one address while each node's interface is slow.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use windlass_api::DEFAULT_ADVERTISEMENT_INTERVAL_MS;
use windlass_e2e::{
    EndpointState, Lab,
    statistics::{Sorted, whole_milliseconds},
};

use super::{
    report::Row,
    scene::{DOWNLOAD_PORT, NODES, Scene, System, offer_downloads},
};
use crate::{
    pair,
    system::{CLIENT, await_answer},
};

/// Port of the servers in the pods.
pub(crate) const SERVER_PORT: u16 = 9000;
/// Rate of each node's interface, in each direction.
const MBIT_S: u32 = 100;
/// Downloads at the same time. Less than one draw in ten thousand has none of one of four nodes.
const DOWNLOADS: usize = 40;
/// Time before bytes are counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// Limit of the beginning of a download.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest time in which a client does not look for the end.
const LOOK: Duration = Duration::from_millis(100);
const BUFFER: usize = 1 << 16;
/// Name of keepalived's Service.
const KEEPALIVED: &str = "keepalived";

/// Starts a server in each pod. They run until the process ends, also while their nodes are off.
pub(crate) fn start_servers(lab: &Lab) -> anyhow::Result<()> {
    for node in NODES {
        let pod = format!("web-{node}");
        let listener = lab.within(&pod, || TcpListener::bind((Ipv4Addr::UNSPECIFIED, SERVER_PORT)))?;
        let listener = listener.with_context(|| format!("listening in {pod}"))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || send(stream));
            }
        });
    }
    Ok(())
}

/// Sends until the client ends the connection.
fn send(mut stream: TcpStream) {
    let zeros = vec![0; BUFFER];
    while stream.write_all(&zeros).is_ok() {}
}

/// Measures downloads with pods on 1 node and more.
pub(crate) async fn measure(
    scene: &Scene<'_>,
    system: System,
    rounds: usize,
    time: Duration,
) -> anyhow::Result<Vec<Row>> {
    let lab = scene.lab;
    let keepalived = match system {
        System::Keepalived => {
            let service = lab.foreign_service_with(KEEPALIVED, "web", pair::ADDRESS, offer_downloads).await?;
            pair::start_on(lab, NODES[0], DEFAULT_ADVERTISEMENT_INTERVAL_MS, 254)?;
            await_answer(lab, pair::ADDRESS).await?;
            Some(service)
        }
        System::Windlass | System::None => None,
    };
    let address = if keepalived.is_some() { pair::ADDRESS } else { scene.vip };
    let mut rows = Vec::new();
    for nodes in 1..=NODES.len() {
        let pods = &NODES[..nodes];
        match &keepalived {
            Some(service) => {
                let all: Vec<_> = pods.iter().map(|node| (*node, EndpointState::Ready)).collect();
                lab.write_pods(service, &all).await?;
                scene.await_servers(address, pods).await?;
            }
            None => scene.serve(system, pods).await?,
        }
        limit(lab, true)?;
        let figures =
            (0..rounds).map(|_| receive(lab, address, time)).collect::<anyhow::Result<Sorted<u64>>>();
        limit(lab, false)?;
        let row = Row::download(system, nodes, &figures?);
        println!("bench: {row}");
        rows.push(row);
    }
    if keepalived.is_some() {
        lab.stop_keepalived(NODES[0]).await?;
        lab.remove_service(KEEPALIVED).await?;
    }
    Ok(rows)
}

fn limit(lab: &Lab, is_limited: bool) -> anyhow::Result<()> {
    NODES.into_iter().try_for_each(|node| {
        let node = lab.node(node)?;
        if is_limited { node.limit_rate(MBIT_S) } else { node.unlimit_rate() }
    })
}

/// Downloads from the address, and returns the bits a second of all downloads together, without headers.
fn receive(lab: &Lab, address: IpAddr, time: Duration) -> anyhow::Result<u64> {
    let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    lab.within(CLIENT, || {
        thread::scope(|scope| {
            let download = || read((address, DOWNLOAD_PORT).into(), &received, &stop);
            let downloads: Vec<_> = (0..DOWNLOADS).map(|_| scope.spawn(download)).collect();
            thread::sleep(WARM_UP);
            let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
            thread::sleep(time);
            let (took, bytes) = (begun.elapsed(), received.load(Ordering::Relaxed) - before);
            stop.store(true, Ordering::Relaxed);
            for download in downloads {
                let ended = download.join().map_err(|_| anyhow!("a download panicked"))?;
                ended.with_context(|| format!("downloading from {address}"))?;
            }
            Ok(bytes * 8000 / whole_milliseconds(took).max(1))
        })
    })?
}

fn read(from: SocketAddr, received: &AtomicU64, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&from, LIMIT)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => drop(received.fetch_add(length as u64, Ordering::Relaxed)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
