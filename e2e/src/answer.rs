//! Measures when a client of the LAN gets its first answer.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use tokio::sync::oneshot;

use crate::{lab::Lab, probe::ask, sandbox::Entrance};

/// Between a refusal and the next attempt.
const PAUSE: Duration = Duration::from_millis(1);

impl Lab {
    /// Asks `address`:`port` over TCP from host `client`, again and again, and returns when the first answer was there.
    /// A refusal is followed by the next attempt after a millisecond, silence after 50.
    pub async fn first_answer(
        &self,
        client: &str,
        address: impl Into<IpAddr>,
        port: u16,
        limit: Duration,
    ) -> anyhow::Result<Instant> {
        let entrance = Entrance::new(&self.sandbox, client)?;
        let target = SocketAddr::new(address.into(), port);
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new().name(format!("answer-{client}")).spawn(move || {
            // Whoever asked may be gone.
            let _ = tell.send(entrance.enter().and_then(|()| await_answer(target, limit)));
        })?;
        told.await.context("the asking thread panicked")?
    }
}

fn await_answer(target: SocketAddr, limit: Duration) -> anyhow::Result<Instant> {
    let began = Instant::now();
    loop {
        match ask(target) {
            Ok(_) => return Ok(Instant::now()),
            Err(error) if began.elapsed() >= limit => {
                return Err(anyhow!(
                    "nobody answered at {target} within {} s; last: {error:#}",
                    limit.as_secs()
                ));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
