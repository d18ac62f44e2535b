//! The virtual IPs of this process, and their configuration in the engine and the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use windlass_engine::{
    Balancing, Engine, Event, Family, Restrictions, RouterConfig, RouterStatus, State, Vrid,
};
use windlass_vrrp::Time;

use super::announcer::Announcer;
use super::checked::{Checked, RunningChecks};
use super::election::LostPriority;
use super::metrics::{Display, Shown};
use super::place;
use super::routes::{self, Standing};
use super::settings::{Settings, VipSettings};
use super::translation::Translation;
use super::virtual_ip::{Heard, Node, VirtualIp};
use crate::engine_events;
use crate::keys::signing::KeysFolder;
use crate::parts::Parts;

/// Time for which a virtual IP that is held no longer is still served for packets that come here, until all hosts have learned of the new
/// Active.
const LINGER: Duration = Duration::from_secs(10);

/// The virtual IPs and what they need.
pub(super) struct Holder {
    engine: Arc<Engine>,
    settings: Settings,
    vips: BTreeMap<IpAddr, (VirtualIp, Checked)>,
    /// Virtual IPs that are held no longer, and the time until which they are served.
    leaving: BTreeMap<IpAddr, (VirtualIp, Checked, Instant)>,
    checks: RunningChecks,
    keys: Option<KeysFolder>,
    translation: Translation,
    announcer: Announcer,
    own: BTreeSet<IpAddr>,
    began: Instant,
    display: Display,
    /// Configuration last applied to the engine.
    routers: Vec<RouterConfig>,
    listening: Vec<String>,
    restricted: Restrictions,
    /// Obstacle to the announcement of each, as last logged.
    obstacles: BTreeMap<IpAddr, String>,
}

impl Holder {
    /// Fails if no thread can be started.
    pub(super) fn new(
        engine: Arc<Engine>,
        settings: Settings,
        display: Display,
        parts: Arc<Parts>,
    ) -> io::Result<Self> {
        let mut holder = Self {
            engine,
            settings: Settings { keys_dir: None, bgp: None, vips: Vec::new() },
            vips: BTreeMap::new(),
            leaving: BTreeMap::new(),
            checks: RunningChecks::new(Arc::clone(&parts)),
            keys: None,
            translation: Translation::start(parts)?,
            announcer: Announcer::default(),
            own: BTreeSet::new(),
            began: Instant::now(),
            display,
            routers: Vec::new(),
            listening: Vec::new(),
            restricted: Restrictions::default(),
            obstacles: BTreeMap::new(),
        };
        holder.change(settings);
        Ok(holder)
    }

    /// Notified when a check has a result: [`Self::bring`].
    pub(super) fn news(&self) -> &Arc<Notify> {
        self.checks.news()
    }

    /// Takes these settings in place of the last ones.
    pub(super) fn change(&mut self, settings: Settings) {
        if settings == self.settings {
            return;
        }
        if settings.keys_dir != self.settings.keys_dir {
            self.keys = settings.keys_dir.clone().map(KeysFolder::open);
        }
        let mut before = std::mem::take(&mut self.vips);
        for wanted in &settings.vips {
            let left = self.leaving.remove(&wanted.address).map(|(vip, checked, _)| (vip, checked));
            let known = before.remove(&wanted.address).or(left);
            let changed = changed(known, wanted, &mut self.checks);
            self.vips.insert(wanted.address, changed);
        }
        let until = Instant::now() + LINGER;
        let gone = before.into_iter().map(|(address, (vip, checked))| (address, (vip, checked, until)));
        self.leaving.extend(gone);
        self.settings = settings;
        let addresses: Vec<IpAddr> = self.vips.keys().copied().collect();
        tracing::info!(?addresses, "virtual IPs of this host");
        self.look();
    }

    /// Looks for changes that are not notified, and applies them.
    pub(super) fn look(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.refresh();
        }
        self.leaving.retain(|_, (_, _, until)| Instant::now() < *until);
        let now = since(self.began);
        let machine = Engine::host_addresses();
        match &machine {
            Ok(machine) => {
                let leaving = self.leaving.values_mut().map(|(vip, _, _)| vip);
                for vip in self.vips.values_mut().map(|(vip, _)| vip).chain(leaving) {
                    vip.find_place(machine, now);
                }
                self.own = place::own_addresses(machine);
            }
            Err(error) => tracing::error!(%error, "cannot list the host's addresses; trying again"),
        }
        if let Some(bgp) = &self.settings.bgp {
            let virtual_ips = self.vips.keys().copied().collect();
            self.announcer.look(bgp, machine.as_ref().ok(), &virtual_ips);
        }
        let elected = self.vips.values().filter(|(vip, _)| vip.settings.vrrp);
        let places = elected.filter_map(|(vip, _)| vip.place().ok());
        let interfaces: BTreeSet<String> = places.map(|place| place.interface.clone()).collect();
        let interfaces: Vec<String> = interfaces.into_iter().collect();
        if interfaces != self.listening {
            self.engine.listen(&interfaces);
            self.listening = interfaces;
        }
        self.bring();
    }

    /// Records an event of the engine. Returns true if [`Self::bring`] may wait a moment: foreign routers may cause many events.
    pub(super) fn hear(&mut self, event: &Event) -> bool {
        engine_events::log(event, &engine_events::VIP);
        if let Event::ForeignRouter { interface, vrid, source, addresses, message, .. } = event {
            let heard = Heard { interface, vrid: *vrid, source: *source, listed: addresses, message };
            let node = node(self.keys.as_ref(), self.began);
            for (vip, _) in self.vips.values_mut() {
                vip.hear(heard, node);
            }
            return true;
        }
        false
    }

    /// Applies changes to the engine and the kernel.
    pub(super) fn bring(&mut self) {
        let statuses = self.engine.snapshot();
        let node = node(self.keys.as_ref(), self.began);
        for (address, (vip, _)) in &mut self.vips {
            vip.choose_vrid(status_of(&statuses, *address), node);
        }
        let (now, is_untranslated) = (Instant::now(), self.translation.lasting_failure().is_some());
        // Packets to a virtual IP that is not translated would go nowhere.
        let goes_nowhere = |vip: &VirtualIp| is_untranslated && vip.is_translated();
        let vips = self.vips.values();
        let routers: Vec<RouterConfig> = vips
            .filter_map(|(vip, checked)| {
                let lost = if goes_nowhere(vip) {
                    LostPriority { failing: u8::MAX, proving: 0 }
                } else {
                    checked.lost_priority(now)
                };
                vip.router(lost, node)
            })
            .collect();
        self.restrict();
        let standings = self.vips.values().map(|(vip, checked)| {
            let can_serve = vip.can_serve() && !goes_nowhere(vip);
            (&vip.settings, routes::standing(can_serve, checked.lost_priority(now)))
        });
        self.announcer.bring(self.settings.bgp.as_ref(), standings, &self.engine);
        self.translate(&statuses);
        if routers != self.routers {
            self.engine.apply(routers.clone());
            self.routers = routers;
        }
        self.show(&statuses);
    }

    /// Closes all ports but those that are served.
    fn restrict(&mut self) {
        let mut restricted = Restrictions::default();
        self.served().for_each(|(vip, _)| vip.restrict(&mut restricted));
        if restricted != self.restricted {
            self.engine.restrict(Arc::new(restricted.clone()));
            self.restricted = restricted;
        }
    }

    /// The virtual IPs of which packets are served that come here.
    fn served(&self) -> impl Iterator<Item = (&VirtualIp, &Checked)> {
        let leaving = self.leaving.values().map(|(vip, checked, _)| (vip, checked));
        self.vips.values().map(|(vip, checked)| (vip, checked)).chain(leaving)
    }

    /// Configures the kernel to send packets to the virtual IPs where they are served.
    fn translate(&mut self, statuses: &[RouterStatus]) {
        let mut balancing = Balancing { own: self.own.clone(), ..Balancing::default() };
        for (vip, checked) in self.served() {
            vip.balance(&checked.well(), &mut balancing);
        }
        let is_local = |(address, (vip, _)): &(&IpAddr, &(VirtualIp, Checked))| {
            vip.is_translated() && (is_claimed(statuses, **address) || self.takes_own_packets(vip))
        };
        let local = self.vips.iter().filter(is_local).map(|(address, _)| *address).collect();
        self.translation.bring(balancing, local);
    }

    /// Returns true if this node's own packets to a virtual IP that is announced by BGP stay here. From a degraded node they go to the
    /// router, which sends them to a good one.
    fn takes_own_packets(&self, vip: &VirtualIp) -> bool {
        match self.announcer.standing(vip.settings.address) {
            Some(Standing::Good) => true,
            Some(Standing::Degraded) => vip.settings.balance.is_some(),
            Some(Standing::Withheld) | None => false,
        }
    }

    /// Shows metrics and readiness, and logs what has changed.
    fn show(&mut self, statuses: &[RouterStatus]) {
        let (keys, now) = (self.keys.as_ref().map(KeysFolder::keys), Instant::now());
        let untranslated = self.translation.lasting_failure();
        let sessions = self.engine.speaker_status();
        let mut obstacles = BTreeMap::new();
        let mut all = Vec::new();
        for (address, (vip, checked)) in &mut self.vips {
            checked.log(*address, now);
            let status = status_of(statuses, *address);
            let untranslated = untranslated.clone().filter(|_| vip.is_translated());
            let obstacle = vip
                .obstacle(keys)
                .or_else(|| status.and_then(|status| status.error.clone()))
                .or(untranslated)
                .or_else(|| self.announcer.obstacle(*address, &sessions));
            if let Some(obstacle) = &obstacle {
                if self.obstacles.get(address) != Some(obstacle) {
                    tracing::warn!(%address, "this node cannot announce the virtual IP: {obstacle}");
                }
                obstacles.insert(*address, obstacle.clone());
            }
            let router = self.routers.iter().find(|router| router.addresses.contains(address));
            all.push(Shown {
                address: address.to_string(),
                interface: vip.place().map(|place| place.interface.clone()).unwrap_or_default(),
                vrid: vip.vrid().map_or(0, Vrid::get),
                active: is_claimed(statuses, *address),
                priority: router.map_or(0, |router| router.priority.get()),
                became_active: status.map_or(0, |status| status.counters.became_active),
                checks: checked.checks(now),
                backends: checked.backends(),
                standing: self.announcer.standing(*address),
                obstacle,
            });
        }
        self.obstacles = obstacles;
        let problems = self.settings.bgp.as_ref().map(|bgp| self.announcer.problems(bgp, &sessions));
        let undetected = self.engine.bfd_status().error.clone();
        self.display.set(all, problems.into_iter().flatten().chain(undetected).collect());
    }
}

/// Returns the virtual IP with the settings `wanted`, and keeps the state of a known one of its address.
fn changed(
    known: Option<(VirtualIp, Checked)>,
    wanted: &VipSettings,
    checks: &mut RunningChecks,
) -> (VirtualIp, Checked) {
    match known {
        Some((vip, checked)) if vip.settings == *wanted => (vip, checked),
        Some((mut vip, checked)) => {
            let is_checked_alike =
                vip.settings.checks == wanted.checks && vip.settings.balance == wanted.balance;
            vip.change(wanted.clone());
            // Unchanged checks keep running and keep their results: a change of the priority must not move the address.
            let checked = if is_checked_alike { checked } else { Checked::start(wanted, checks) };
            (vip, checked)
        }
        None => (VirtualIp::new(wanted.clone()), Checked::start(wanted, checks)),
    }
}

/// Returns the state that all virtual IPs need.
fn node(keys: Option<&KeysFolder>, began: Instant) -> Node<'_> {
    Node {
        keys: keys.map(KeysFolder::keys),
        vrid_in_use: &|interface, address, vrid| Engine::is_vrid_in_use(interface, Family::of(address), vrid),
        now: since(began),
        wall: SystemTime::now().into(),
    }
}

fn since(began: Instant) -> Time {
    Time::from_nanos(1) + began.elapsed()
}

/// Returns the status of the virtual router that has this address.
fn status_of(statuses: &[RouterStatus], address: IpAddr) -> Option<&RouterStatus> {
    statuses.iter().find(|status| status.addresses.contains(&address))
}

/// Returns true if this node answers for the address.
fn is_claimed(statuses: &[RouterStatus], address: IpAddr) -> bool {
    let claims = |status: &&RouterStatus| status.state == State::Active && status.claimed.contains(&address);
    statuses.iter().any(|status| claims(&status))
}
