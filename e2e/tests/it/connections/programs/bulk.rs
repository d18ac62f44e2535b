//! Bulk transfers between a client and a backend, as fast as they go, each byte compared.

use std::{
    fs::File,
    io::{Read, Write as _},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use windlass_e2e::{Lab, await_that};

use super::BULK;
use crate::setup::LIMIT;

const BLOCK: usize = 64 << 10;
/// Blocks of a transfer: 200 MiB.
const BLOCKS: usize = 3200;
/// Those before the cable is pulled, at least.
const BEFORE: usize = 200;
/// How long a receiver waits for the next byte.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transfer of random blocks, each with its number.
pub(super) struct Transfer {
    what: String,
    release: SyncSender<()>,
    /// Blocks that have arrived.
    arrived: Arc<AtomicUsize>,
    sender: JoinHandle<anyhow::Result<()>>,
    receiver: JoinHandle<anyhow::Result<()>>,
}

/// Over each address one transfer in each direction, of which only the first block is sent before [`release`].
pub(super) fn start(lab: &Lab, server: &str, vips: &[IpAddr]) -> anyhow::Result<Vec<Transfer>> {
    let listener = lab.within(server, || TcpListener::bind(("::", BULK)))?.context("listening")?;
    let mut transfers = Vec::new();
    for vip in vips {
        for is_upload in [false, true] {
            let client = lab.within("c1", || TcpStream::connect((*vip, BULK)))?;
            let client = client.with_context(|| format!("connecting to {vip}"))?;
            let (server, _) = listener.accept()?;
            let (from, to) = if is_upload { (client, server) } else { (server, client) };
            let direction = if is_upload { "to" } else { "from" };
            transfers.push(Transfer::start(format!("{direction} {vip}"), from, to)?);
        }
    }
    Ok(transfers)
}

/// Lets all of them go, and waits until each is well under way.
pub(super) async fn release(transfers: &[Transfer]) -> anyhow::Result<()> {
    for transfer in transfers {
        transfer.release.send(()).with_context(|| transfer.what.clone())?;
    }
    await_that("all transfers are under way", LIMIT, async || {
        let arrived: Vec<usize> = transfers.iter().map(Transfer::arrived).collect();
        ensure!(arrived.iter().all(|arrived| *arrived >= BEFORE), "{arrived:?} of {BLOCKS} blocks");
        Ok(Some(()))
    })
    .await
}

impl Transfer {
    fn start(what: String, mut from: TcpStream, mut to: TcpStream) -> anyhow::Result<Self> {
        let mut block = vec![0; BLOCK];
        File::open("/dev/urandom")?.read_exact(&mut block)?;
        let ((release, released), arrived) = (sync_channel(1), Arc::new(AtomicUsize::new(0)));
        to.set_read_timeout(Some(PATIENCE))?;
        let mut expected = block.clone();
        let count = Arc::clone(&arrived);
        let sender = std::thread::spawn(move || {
            for number in 0..BLOCKS {
                if number == 1 {
                    released.recv().context("nobody lets it go on")?;
                }
                block[..8].copy_from_slice(&number.to_be_bytes());
                from.write_all(&block).with_context(|| format!("sending block {number}"))?;
            }
            Ok(())
        });
        let receiver = std::thread::spawn(move || {
            let mut received = vec![0; BLOCK];
            for number in 0..BLOCKS {
                to.read_exact(&mut received).with_context(|| format!("receiving block {number}"))?;
                expected[..8].copy_from_slice(&number.to_be_bytes());
                ensure!(received == expected, "block {number} is another than was sent");
                count.fetch_add(1, Ordering::Relaxed);
            }
            ensure!(to.read(&mut received)? == 0, "more was received than was sent");
            Ok(())
        });
        Ok(Self { what, release, arrived, sender, receiver })
    }

    fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    /// What is to outlive a fault must not be over before.
    pub(super) fn ensure_under_way(&self) -> anyhow::Result<()> {
        let arrived = self.arrived();
        ensure!(arrived < BLOCKS, "the transfer {} was over before the cable was pulled", self.what);
        println!("bulk {}: {arrived} of {BLOCKS} blocks had arrived", self.what);
        Ok(())
    }

    /// Waits for its end: all has arrived as it was sent.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        for end in [self.sender, self.receiver] {
            end.join().map_err(|_| anyhow!("it panicked"))?.with_context(|| self.what.clone())?;
        }
        Ok(())
    }
}
