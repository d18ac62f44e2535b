//! The handle.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use windlass_vrrp::{Family, Vrid, wire};

use crate::clock;
use crate::config::RouterConfig;
use crate::core::Core;
use crate::event::Event;
use crate::event_thread::{self, EventSender, EventThread};
use crate::handle::{RouterHandle, SharedState};
use crate::hold;
use crate::inbox::Inbox;
use crate::interfaces::{self, Follower, HostAddresses, HostLink, HostRoute, InterfaceInfo, LinkKind};
use crate::lateness::{Lateness, LatenessMeter};
use crate::links::Links;
use crate::neighbour;
use crate::options::{Options, StartError};
use crate::realtime;
use crate::replication;
use crate::restriction::{GuardStatus, Restrictions};
use crate::sockets;
use crate::status::{ForwardingStatus, LinkStatus, ReplicationStatus, RouterStatus};
use crate::vrid_claim;
use crate::way_back::{self, Heard};

/// Time between two looks at whether what is bound was handed over.
const HAND_OVER_POLL: Duration = Duration::from_millis(1);

/// The running engine. Dropping it is like [`Engine::shutdown`].
pub struct Engine {
    inbox: Arc<Inbox>,
    links: Arc<Links>,
    /// Held while orders are given: the timer thread and the watcher of the links must not follow two different callers.
    orders: Mutex<()>,
    shared: Arc<SharedState>,
    lateness: Arc<LatenessMeter>,
    /// The thread that panicked.
    stopped_by: Arc<OnceLock<&'static str>>,
    timer_thread: Option<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
    event_thread: Option<EventThread>,
}

impl Engine {
    /// Starts the engine's threads. They work in the network namespace of the calling thread, with its capabilities. Refused
    /// without CAP_NET_RAW and where netlink is not permitted ([`StartError`]).
    pub fn start(options: Options) -> Result<Self, StartError> {
        sockets::check_capabilities()?;
        let os = |source| StartError::Os { what: "create an eventfd", source };
        let follower = Follower::open(clock::now())
            .map_err(|error| StartError::Netlink { source: io::Error::from(error) })?;
        let mut engine = Self {
            inbox: Arc::new(Inbox::new().map_err(os)?),
            links: Arc::new(Links::new().map_err(os)?),
            orders: Mutex::default(),
            shared: Arc::new(SharedState::new().map_err(os)?),
            lateness: Arc::default(),
            stopped_by: Arc::default(),
            timer_thread: None,
            helpers: Vec::new(),
            event_thread: None,
        };
        let Options {
            on_event,
            realtime,
            guard,
            guard_timeout,
            table,
            connection_forwarding,
            connection_replication,
            tag,
            announcements,
            foreign_router_period,
        } = options;
        let (event_sender, event_thread) = event_thread::start(on_event)
            .map_err(|source| StartError::Os { what: "start a thread", source })?;
        engine.event_thread = Some(event_thread);
        let net_admin = realtime::may_administer_network();
        let (inbox, events) = (Arc::clone(&engine.inbox), event_sender.clone());
        let stop_on_panic = StopOnPanic { inbox, events, stopped_by: Arc::clone(&engine.stopped_by) };
        let (shared, events) = (Arc::clone(&engine.shared), event_sender.clone());
        engine.helpers.push(spawn("windlass-neighbour", &stop_on_panic, move || {
            if realtime {
                realtime::neighbour_thread();
            }
            neighbour::run(&shared, &events, announcements, foreign_router_period);
        })?);
        let (shared, inbox, events) =
            (Arc::clone(&engine.shared), Arc::clone(&engine.inbox), event_sender.clone());
        let settings = hold::Settings { guard, table, guard_timeout, connection_forwarding, net_admin, tag };
        engine.helpers.push(spawn("windlass-hold", &stop_on_panic, move || {
            if realtime {
                realtime::hold_thread();
            }
            hold::run(&shared, &inbox, &events, &settings);
        })?);
        if let Some(settings) = connection_replication {
            let shared = Arc::clone(&engine.shared);
            engine.helpers.push(spawn("windlass-connections", &stop_on_panic, move || {
                replication::run(&shared, settings);
            })?);
        }
        let (links, inbox) = (Arc::clone(&engine.links), Arc::clone(&engine.inbox));
        engine.helpers.push(spawn("windlass-links", &stop_on_panic, move || links.run(follower, &inbox))?);
        let (shared, inbox) = (Arc::clone(&engine.shared), Arc::clone(&engine.inbox));
        let lateness = Arc::clone(&engine.lateness);
        let core = Core::new(shared, inbox, event_sender, lateness, net_admin, foreign_router_period)
            .map_err(|source| StartError::Os { what: "create an epoll or timer descriptor", source })?;
        let close_on_exit = CloseOnExit(Arc::clone(&engine.inbox));
        engine.timer_thread = Some(spawn("windlass-vrrp", &stop_on_panic, move || {
            let _close_on_exit = close_on_exit;
            if realtime {
                realtime::timer_thread();
            }
            core.run();
        })?);
        Ok(engine)
    }

    /// Declares which virtual routers shall run: new ones start, missing ones resign (priority 0) and stop, changed ones
    /// are updated in place. Returns at once; the last call wins. Of several with one key the last counts. One that cannot run
    /// is reported as [`Event::Failed`], with its remedy, and tried again by itself; the others run.
    pub fn apply(&self, desired: Vec<RouterConfig>) {
        let mut groups: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for config in &desired {
            groups.entry(config.interface.clone()).or_default().extend(config.group());
        }
        let _order = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        // The inbox first: routers that go must resign before their interface is let go.
        self.inbox.apply(desired);
        self.links.want_for_routers(groups);
    }

    /// Declares which ports VIPs have and who may send to which of them, of this node's virtual routers and of others': the packets of others are
    /// dropped, and what is for no port of a VIP is refused, from this node itself as well, before any NAT rule sees them. Needs [`Options::guard`]. Returns at once;
    /// the last call wins. What is in force, [`Engine::guard_status`] tells: a caller that must not let anybody else in
    /// names a restricted VIP to [`Engine::apply`] once its restrictions are.
    pub fn restrict(&self, restrictions: Arc<Restrictions>) {
        self.shared.restrict(restrictions);
    }

    /// Which restrictions are in force. [`Event::GuardChanged`] tells of a change.
    pub fn guard_status(&self) -> Arc<GuardStatus> {
        self.shared.guard_status()
    }

    /// How connections of VIPs that were handed over are forwarded.
    pub fn forwarding_status(&self) -> Arc<ForwardingStatus> {
        self.shared.forwarding_status()
    }

    /// How the connections of VIPs are replicated.
    pub fn replication_status(&self) -> Arc<ReplicationStatus> {
        self.shared.replication_status()
    }

    /// The virtual routers as they are now, in the order of their keys.
    pub fn snapshot(&self) -> Vec<RouterStatus> {
        self.inbox.status(|report| report.routers.clone())
    }

    /// The interfaces listened on, with what was refused there.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.inbox.status(|report| report.links.clone())
    }

    /// Ethernet interfaces that are up and have an IPv4 or a usable IPv6 address, by name, without those that the engine
    /// makes. In the network namespace of the calling thread; fails only if the kernel refuses netlink.
    pub fn interfaces() -> io::Result<Vec<InterfaceInfo>> {
        Ok(Self::host_addresses()?.interfaces)
    }

    /// These interfaces, and what other addresses the machine has. Under the same conditions.
    pub fn host_addresses() -> io::Result<HostAddresses> {
        interfaces::scan()
    }

    /// Whether a process of this machine runs a virtual router of this VRID there, in the default group or, of two nodes that speak by
    /// unicast alone, in none. In the network namespace of the calling thread.
    pub fn is_vrid_in_use(interface: &str, family: Family, vrid: Vrid) -> bool {
        let groups = [Some(wire::default_group(family)), None];
        groups.into_iter().any(|group| vrid_claim::is_claimed(interface, family, group, vrid))
    }

    /// The interfaces of these names, of whatever kind, and what their links can carry. Under the same conditions; a speed that
    /// cannot be asked for is not known. A driver may take some milliseconds to answer.
    pub fn host_links(is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<HostLink>> {
        interfaces::links(is_wanted)
    }

    /// The interfaces that are up, with their kinds, without those that the engine makes. Under the same conditions.
    pub fn link_kinds() -> io::Result<Vec<LinkKind>> {
        interfaces::link_kinds()
    }

    /// The ways to other hosts by interfaces that are up, without those that every IPv6 link has. Under the same conditions.
    pub fn routes() -> io::Result<Vec<HostRoute>> {
        interfaces::routes()
    }

    /// Asks hosts, of the family of `own`, whether what they answer to this address of this node arrives by `interface`, as answers of
    /// backends to a VIP would that is on the same LAN; each is also asked from whatever address the kernel takes, to tell who does
    /// not live from who is not heard. By ICMP, which the kernel of any host answers. Who is asked and did not answer within the
    /// time, not at all or not that way, has no entry, or one that says so.
    ///
    /// Pod networks masquerade what a node asks from its address on the LAN; a question whose source is kept needs this engine's
    /// [guard](Options::guard). Without it a host beyond such a network counts as not heard by the interface, whatever it does.
    ///
    /// In the network namespace of the calling thread, which waits for `limit` at most. Needs CAP_NET_RAW.
    pub fn ask_way_back(
        own: IpAddr,
        interface: &str,
        hosts: &BTreeSet<IpAddr>,
        limit: Duration,
    ) -> io::Result<BTreeMap<IpAddr, Heard>> {
        way_back::ask(own, interface, hosts, limit)
    }

    /// Listens for VRRP routers on these interfaces, also where no router of ours runs. The last call wins.
    pub fn listen(&self, interfaces: &[String]) {
        let interfaces: BTreeSet<String> = interfaces.iter().cloned().collect();
        let _order = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        self.inbox.listen(interfaces.clone());
        self.links.want_for_listening(interfaces);
    }

    /// The thread that panicked, if one did; [`Event::Stopped`] tells of it.
    pub fn stopped_by(&self) -> Option<&'static str> {
        self.stopped_by.get().copied()
    }

    /// How late the latest timer was acted on since this was last asked: for one user, who asks again and again. A Backup has such
    /// timers, too.
    pub fn take_recent_lateness(&self) -> Duration {
        self.lateness.take_recent()
    }

    /// How late timers were acted on since the start.
    pub fn lateness(&self) -> Lateness {
        self.lateness.read()
    }

    /// Resigns everything, lets go of all VIPs and joins the threads. VIPs on an interface stay, and connections that began
    /// on other nodes are forwarded, until a peer has announced the VIPs, for the router's interval and 100 ms at most. Events until then are delivered before it returns,
    /// unless [`Options::on_event`] blocks for more than a second or is what calls it.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let forwards = self.shared.forwarding_status().addresses > 0;
        // The timer thread first: resigning needs the others' sockets. A thread that panicked has nothing to resign.
        self.inbox.stop();
        if let Some(thread) = self.timer_thread.take() {
            let _ = thread.join();
        } // What began elsewhere is forwarded until its clients have heard of the next Active.
        let hands_over = |handle: &RouterHandle| forwards || !handle.bound().is_empty();
        while self
            .shared
            .handles()
            .iter()
            .any(|handle| handle.is_lingering(clock::now()) && hands_over(handle))
        {
            thread::sleep(HAND_OVER_POLL);
        }
        self.shared.stop();
        self.links.stop();
        for thread in self.helpers.drain(..) {
            let _ = thread.join();
        }
        // Last: with the threads the senders of events are gone.
        if let Some(event_thread) = self.event_thread.take() {
            event_thread.finish();
        }
    }
}

/// Held by the timer thread: however it ends, nobody waits for its answers.
struct CloseOnExit(Arc<Inbox>);

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Held by each thread: without one of them an Active would be a black hole, so all routers resign if one panics. If it is the timer
/// thread itself, this node falls silent with the next advert that is due, and the peers take over as from a dead one.
#[derive(Clone)]
struct StopOnPanic {
    inbox: Arc<Inbox>,
    events: EventSender,
    stopped_by: Arc<OnceLock<&'static str>>,
}

impl StopOnPanic {
    fn guard(&self, thread: &'static str) -> impl Drop + use<> {
        struct Guard(StopOnPanic, &'static str);
        impl Drop for Guard {
            fn drop(&mut self) {
                let Self(of, thread) = self;
                if thread::panicking() {
                    tracing::error!(thread, "a thread of the engine panicked: all virtual routers resign");
                    let _ = of.stopped_by.set(thread);
                    of.inbox.stop();
                    of.events.send(Event::Stopped { thread });
                }
            }
        }
        Guard(self.clone(), thread)
    }
}

fn spawn(
    name: &'static str,
    stop_on_panic: &StopOnPanic,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let guard = stop_on_panic.guard(name);
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = guard;
        body();
    });
    thread.map_err(|source| StartError::Os { what: "start a thread", source })
}
