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
use windlass_engine::{AddressTag, ConnectionForwarding, Engine, HostClaim, MarkMask, Options};

use super::flags::SettingsFlags;
use super::holder::Holder;
use super::metrics::{Display, Shown};
use super::settings::Settings;
use crate::bgp_sessions;
use crate::engine_events;
use crate::helper_metrics;
use crate::parts::Parts;

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
    let shown = registry.clone();
    let parts = Arc::new(Parts::new());
    serve(socket, registry, display.clone(), &parts, &token);
    let Some(_sole) = sole(&settings, &display, &token).await else { return Ok(()) };

    let (on_event, mut incoming, lost) = engine_events::queue();
    let options = engine_options(Options::new(on_event));
    let engine = Arc::new(Engine::start(options).context("cannot start the VRRP engine")?);
    let (watched, shown_parts) = (Arc::downgrade(&engine), Arc::clone(&parts));
    let speaking = watched.clone();
    samples::register(&shown, move || {
        let status = speaking.upgrade().map(|engine| (engine.speaker_status(), engine.bfd_status()));
        let (sessions, detection) = status.unwrap_or_default();
        bgp_sessions::families(&sessions, &detection)
    })?;
    samples::register(&shown, move || {
        let status = watched.upgrade().map(|engine| helper_metrics::status(&engine, &shown_parts));
        helper_metrics::helpers(&status.unwrap_or_default())
    })?;
    let mut holder =
        Holder::new(Arc::clone(&engine), settings, display, parts).context("cannot start a thread")?;
    let news = Arc::clone(holder.news());
    let mut settings = SettingsFile { flags, told: None };
    let mut look = crate::every(LOOK);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "holding virtual IPs");
    // When what was told is to be acted on.
    let mut bring_at = None;
    let outcome = loop {
        tokio::select! {
            () = token.cancelled() => break Ok(()),
            Some(event) = incoming.recv() => {
                if let Some(thread) = engine.stopped_by() {
                    break Err(engine_events::panicked(thread));
                }
                if holder.hear(&event) {
                    bring_at.get_or_insert_with(|| Instant::now() + GATHER);
                } else {
                    bring_at = Some(Instant::now());
                }
            }
            // What is to be done at once waits for no more than what was told before.
            () = sleep_until(bring_at.unwrap_or_else(Instant::now)), if bring_at.is_some() && incoming.is_empty() => {
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
    };
    drop(holder);
    if let Some(engine) = Arc::into_inner(engine) {
        // Resigns. The tables stay: they serve what still comes here until all have heard of the new Active, and connections go on.
        let _ = tokio::task::spawn_blocking(move || engine.shutdown()).await;
    }
    outcome
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

fn engine_options(mut options: Options) -> Options {
    options.guard = true;
    GUARD.clone_into(&mut options.table);
    options.guard_timeout = GUARD_TIMEOUT;
    options.tag = AddressTag::new(TAG).unwrap_or_default();
    options.foreign_router_period = FOREIGN_ROUTER_PERIOD;
    options.connection_forwarding = MarkMask::new(MARKS)
        .ok()
        .map(|marks| ConnectionForwarding { marks, ..ConnectionForwarding::default() });
    options
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
