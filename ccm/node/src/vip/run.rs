//! The process: passes the host's state, events and results of checks to the virtual IPs, and their configuration to the engine and the
//! kernel.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use prometheus::Registry;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_ccm::serving::{HealthChecks, Scope};
use windlass_common::http::serve_probes;
use windlass_common::samples;
use windlass_engine::{AddressTag, ConnectionForwarding, HostClaim, MarkMask, Options};

use super::flags::SettingsFlags;
use super::holder::Holder;
use super::metrics::{Display, Shown};
use super::settings::Settings;
use crate::helper_metrics::{helpers, status};
use crate::parts::Parts;
use crate::started_engine::{self, StartedEngine};
use crate::{bgp_sessions, every};

/// Name of the guard's table, and of the one process of a host that has it. An agent on the same host has another.
const GUARD: &str = "windlass-vip";
/// Mark of the addresses that are put on interfaces.
const TAG: u8 = 0x58;
/// Time for which this host's own packets to an address that it had are refused after the process was killed: its kubelet may need the
/// address.
const GUARD_TIMEOUT: Duration = Duration::from_secs(3);
/// Bits of packet and connection marks: none of an agent's.
const MARKS: u32 = 0x0f;
/// Interval between two looks for changes that are not notified: the machine's addresses, the files, and foreign changes to the tables.
const LOOK: Duration = Duration::from_secs(1);
/// Interval between two events about the same foreign router: a VRID that is free may be wanted soon.
const FOREIGN_ROUTER_PERIOD: Duration = Duration::from_secs(1);
/// Time for which further events about foreign routers are awaited: a sender that forges adverts causes many.
const GATHER: Duration = Duration::from_millis(50);

/// Holds the virtual IPs of the flags, or of the file that they name, until `token` is cancelled. Probes ask at `socket`.
pub async fn run(
    flags: SettingsFlags,
    socket: PathBuf,
    registry: Registry,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let settings = flags.settings()?;
    let display = Display::default();
    display.register(&registry)?;
    let parts = Arc::new(Parts::new());
    serve(socket, registry.clone(), display.clone(), &parts, &token);
    let Some(_sole) = sole(&settings, &display, &token).await else { return Ok(()) };

    let mut started = StartedEngine::new(configure)?;
    let (watched, shown_parts) = (Arc::downgrade(&started.engine), Arc::clone(&parts));
    samples::register(&registry, move || {
        let Some(engine) = watched.upgrade() else { return Vec::new() };
        let sessions = bgp_sessions::families(&engine.speaker_status(), &engine.bfd_status());
        [sessions, helpers(&status(&engine, &shown_parts))].concat()
    })?;
    let mut holder = Holder::new(Arc::clone(&started.engine), settings, display, parts)
        .context("cannot start a thread")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "holding virtual IPs");
    let outcome = hold(&mut holder, &mut started, SettingsFile { flags, told: None }, &token).await;
    drop(holder);
    // The tables stay: they serve packets that still arrive until all hosts have learned of the new Active, and connections continue.
    started_engine::shut_down(started.engine).await;
    outcome
}

/// Passes events, results of checks and new settings to the holder until `token` is cancelled. Fails if the process has to end.
async fn hold(
    holder: &mut Holder,
    started: &mut StartedEngine,
    mut settings: SettingsFile,
    token: &CancellationToken,
) -> anyhow::Result<()> {
    let StartedEngine { engine, events, lost } = started;
    let news = Arc::clone(holder.news());
    let mut look = every(LOOK);
    // Time at which recorded events are acted on.
    let mut bring_at = None;
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Some(event) = events.recv() => {
                started_engine::check(engine)?;
                if holder.hear(&event) {
                    bring_at.get_or_insert_with(|| Instant::now() + GATHER);
                } else {
                    bring_at = Some(Instant::now());
                }
            }
            // An urgent event waits only for the events that were queued before it.
            () = sleep_until(bring_at.unwrap_or_else(Instant::now)), if bring_at.is_some() && events.is_empty() => {
                bring_at = None;
                holder.bring();
            }
            () = news.notified() => holder.bring(),
            _ = look.tick() => {
                if lost.swap(false, Ordering::Relaxed) {
                    tracing::warn!("events of the VRRP engine were lost");
                }
                if let Some(new) = settings.changed() {
                    holder.change(new);
                }
                holder.look();
            }
        }
    }
}

/// Waits until no other process of the host holds virtual IPs; `None`: asked to stop before. Two would make the same tables, each as it
/// wants them, and take the address from each other.
async fn sole(settings: &Settings, display: &Display, token: &CancellationToken) -> Option<HostClaim> {
    let mut is_told = false;
    loop {
        if let Ok(sole) = HostClaim::make(GUARD) {
            if let Some(intruder) = sole.intruder() {
                tracing::warn!("{intruder}");
            }
            return Some(sole);
        }
        if !is_told {
            is_told = true;
            let obstacle = "another `windlass vip` runs on this host, as a static pod or a systemd unit, and this process waits until it exits: \
                            stop one of the two, or let one hold all virtual IPs by a file of settings (--config)";
            tracing::error!("{obstacle}");
            let shown =
                |address: String| Shown { address, obstacle: Some(obstacle.to_owned()), ..Shown::default() };
            display.set(settings.vips.iter().map(|vip| shown(vip.address.to_string())).collect(), Vec::new());
        }
        token.run_until_cancelled(tokio::time::sleep(LOOK)).await?;
    }
}

fn configure(options: &mut Options) {
    options.guard = true;
    GUARD.clone_into(&mut options.table);
    options.guard_timeout = GUARD_TIMEOUT;
    options.tag = AddressTag::new(TAG).unwrap_or_default();
    options.foreign_router_period = FOREIGN_ROUTER_PERIOD;
    options.connection_forwarding = MarkMask::new(MARKS)
        .ok()
        .map(|marks| ConnectionForwarding { marks, ..ConnectionForwarding::default() });
}

/// Answers probes and serves metrics. The addresses are held without it, too.
fn serve(
    socket: PathBuf,
    registry: Registry,
    display: Display,
    parts: &Arc<Parts>,
    token: &CancellationToken,
) {
    let health = HealthChecks::new();
    health.add("virtual-ips", Scope::READY, move || display.readiness());
    let stop = token.clone();
    let serve = async move || serve_probes(&socket, registry.clone(), health.clone(), stop.clone()).await;
    tokio::spawn(parts.keep("vip-probes", token, serve));
}

/// The settings of a file, which may change.
struct SettingsFile {
    flags: SettingsFlags,
    /// Error of the file, as last logged.
    told: Option<String>,
}

impl SettingsFile {
    /// Returns its current settings if they are valid. An invalid file changes nothing.
    fn changed(&mut self) -> Option<Settings> {
        match self.flags.settings() {
            Ok(settings) => {
                self.told = None;
                Some(settings)
            }
            Err(error) => {
                let error = error.to_string();
                if self.told.as_ref() != Some(&error) {
                    tracing::error!("{error}; the previous settings stay in effect");
                    self.told = Some(error);
                }
                None
            }
        }
    }
}
