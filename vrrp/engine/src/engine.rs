//! [`Engine`] starts the threads and is the caller's handle to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use windlass_dataplane::restriction::Restrictions;
use windlass_dataplane::sharing::{Shares, Sharing, SharingError, try_sharing};
use windlass_dataplane::way_back::{self, Heard};
use windlass_kernel::clock;
use windlass_kernel::interfaces::{
    self, Follower, HostAddresses, HostLink, HostRoute, InterfaceInfo, LinkKind,
};
use windlass_vrrp::{Family, Vrid, wire};

use crate::bfd::{Bfd, BfdStatus};
use crate::checks;
use crate::config::{Hold, RouterConfig};
use crate::core::Core;
use crate::endings::Endings;
use crate::event::Event;
use crate::event_queue::{self, EventSender, WaitingEvents};
use crate::event_thread;
use crate::handle::{RouterHandle, SharedState};
use crate::hold;
use crate::hold::background::{self, Job};
use crate::inbox::Inbox;
use crate::lateness::{Lateness, LatenessMeter};
use crate::links::Links;
use crate::neighbour;
use crate::options::{ConnectionReplication, Options, StartError};
use crate::realtime;
use crate::replication;
use crate::sharing::SharingThread;
use crate::speaker::{LEAVING, SessionStatus, Speaker, Speaking};
use crate::status::{
    ForwardingStatus, GuardStatus, HelperStatus, LinkStatus, ReplicationStatus, RouterStatus, SharingStatus,
};
use crate::supervisor::{GRACE, Helper, HelperThread, Supervisor, panic_text};
use crate::vrid_claim;

/// Time between two looks at whether what is bound was handed over.
const HAND_OVER_POLL: Duration = Duration::from_millis(1);

/// The running engine. Dropping it is like [`Engine::shutdown`].
pub struct Engine {
    inbox: Arc<Inbox>,
    links: Arc<Links>,
    /// Held while orders are given: the timer thread and the watcher of the links must not follow two different callers.
    orders: Mutex<()>,
    shared: Arc<SharedState>,
    endings: Arc<Endings>,
    sharing: Arc<SharingThread>,
    speaking: Arc<Speaking>,
    bfd: Arc<Bfd>,
    lateness: Arc<LatenessMeter>,
    /// The thread whose panic ended the engine.
    stopped_by: Arc<OnceLock<&'static str>>,
    timer_thread: Option<JoinHandle<()>>,
    neighbour_thread: Option<JoinHandle<()>>,
    supervisor: Supervisor,
    hold_thread: Option<HelperThread>,
    speaker_thread: Option<HelperThread>,
    bfd_thread: Option<HelperThread>,
    /// Threads that hold nothing, whose end may be late.
    helpers: Vec<HelperThread>,
    event_thread: Option<HelperThread>,
}

impl Engine {
    /// Starts the engine's threads. They work in the network namespace of the calling thread, with its capabilities. Refused
    /// without CAP_NET_RAW and where netlink is not permitted ([`StartError`]).
    pub fn start(options: Options) -> Result<Self, StartError> {
        checks::check_capabilities()?;
        let os = |source| StartError::Os { what: "create an eventfd", source };
        let follower = Follower::open(clock::now())
            .map_err(|error| StartError::Netlink { source: io::Error::from(error) })?;
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
            ending_notice,
            foreign_router_period,
        } = options;
        let (events, waiting_events) = event_queue::channel();
        let shared = Arc::new(SharedState::new().map_err(os)?);
        let mut engine = Self {
            inbox: Arc::new(Inbox::new().map_err(os)?),
            links: Arc::new(Links::new().map_err(os)?),
            orders: Mutex::default(),
            endings: Arc::new(Endings::new(Arc::clone(&shared), ending_notice)),
            sharing: Arc::new(SharingThread::new(format!("{table}-sharing"), Arc::clone(&shared))),
            shared,
            speaking: Arc::new(Speaking::new().map_err(os)?),
            bfd: Arc::new(Bfd::new().map_err(os)?),
            lateness: Arc::default(),
            stopped_by: Arc::default(),
            timer_thread: None,
            neighbour_thread: None,
            supervisor: Supervisor::new(events.clone()),
            hold_thread: None,
            speaker_thread: None,
            bfd_thread: None,
            helpers: Vec::new(),
            event_thread: None,
        };
        let net_admin = realtime::may_administer_network();
        engine
            .start_helpers(on_event, waiting_events, connection_replication, follower, net_admin)
            .map_err(no_thread)?;
        let [forgetting, comparing] =
            ["windlass-forget", "windlass-sets"].map(|thread| engine.start_hold_helper(thread, guard));
        let settings = hold::Settings {
            guard,
            table,
            guard_timeout,
            connection_forwarding,
            net_admin,
            tag,
            forgetting: forgetting.map_err(no_thread)?,
            comparing: comparing.map_err(no_thread)?,
        };
        let (inbox, stopped_by) = (Arc::clone(&engine.inbox), Arc::clone(&engine.stopped_by));
        let stop_on_panic = StopOnPanic { inbox, events: events.clone(), stopped_by };
        engine.start_hold_thread(settings, realtime, &stop_on_panic, &events).map_err(no_thread)?;
        engine.start_speaker(realtime, &events).map_err(no_thread)?;
        engine.supervisor.watch().map_err(no_thread)?;
        let (shared, to_user) = (Arc::clone(&engine.shared), events.clone());
        let answer = move || {
            if realtime {
                realtime::neighbour_thread();
            }
            neighbour::run(&shared, &to_user, announcements, foreign_router_period);
        };
        engine.neighbour_thread =
            Some(spawn("windlass-neighbour", &stop_on_panic, answer).map_err(no_thread)?);
        let (shared, inbox) = (Arc::clone(&engine.shared), Arc::clone(&engine.inbox));
        let lateness = Arc::clone(&engine.lateness);
        let core = Core::new(shared, inbox, events, lateness, net_admin, foreign_router_period)
            .map_err(|source| StartError::Os { what: "create an epoll or timer descriptor", source })?;
        let close_on_exit = CloseOnExit(Arc::clone(&engine.inbox));
        let elect = move || {
            let _close_on_exit = close_on_exit;
            if realtime {
                realtime::timer_thread();
            }
            core.run();
        };
        engine.timer_thread = Some(spawn("windlass-vrrp", &stop_on_panic, elect).map_err(no_thread)?);
        Ok(engine)
    }

    /// Starts the threads that the election does not need.
    fn start_helpers(
        &mut self,
        on_event: Box<dyn Fn(Event) + Send + Sync>,
        waiting_events: WaitingEvents,
        connection_replication: Option<ConnectionReplication>,
        follower: Follower,
        net_admin: bool,
    ) -> io::Result<()> {
        let never = |_: &str| false;
        let nothing = |_: &str| ();
        let deliver = move |helper: &Helper| {
            event_thread::deliver(&waiting_events, &*on_event, helper);
            Ok(())
        };
        self.event_thread = Some(self.supervisor.spawn("windlass-events", nothing, never, deliver)?);
        if let Some(settings) = connection_replication {
            let (shared, withdrawn) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
            let withdraw = move |error: &str| withdrawn.withdraw_replication(error);
            let replicate = move |helper: &Helper| {
                replication::run(&shared, settings, helper);
                Ok(())
            };
            self.helpers.push(self.supervisor.spawn("windlass-connections", withdraw, never, replicate)?);
        }
        if net_admin {
            let endings = Arc::clone(&self.endings);
            let end = move |helper: &Helper| {
                endings.run(helper);
                Ok(())
            };
            self.helpers.push(self.supervisor.spawn("windlass-endings", nothing, never, end)?);
        }
        let (sharing, withdrawn) = (Arc::clone(&self.sharing), Arc::clone(&self.sharing));
        let withdraw = move |error: &str| withdrawn.withdraw(error);
        let share = move |helper: &Helper| sharing.run(helper);
        self.helpers.push(self.supervisor.spawn("windlass-sharing", withdraw, never, share)?);
        let (links, inbox, mut follower) = (Arc::clone(&self.links), Arc::clone(&self.inbox), Some(follower));
        let follow = move |helper: &Helper| links.run(follower.take(), &inbox, helper);
        self.helpers.push(self.supervisor.spawn("windlass-links", nothing, never, follow)?);
        Ok(())
    }

    /// Starts a thread for long jobs of the thread that holds VIPs, which has some only if there is a guard.
    fn start_hold_helper(&mut self, thread: &'static str, guard: bool) -> io::Result<Sender<Job>> {
        let (jobs, received) = mpsc::channel();
        if guard {
            let shared = Arc::clone(&self.shared);
            let wake = move |_: &str| shared.wake_hold();
            let work = move |helper: &Helper| {
                background::work(&received, helper);
                Ok(())
            };
            self.helpers.push(self.supervisor.spawn(thread, wake, |_| false, work)?);
        }
        Ok(jobs)
    }

    /// Starts the thread that holds VIPs. The election needs it only while VIPs are put on interfaces: without it such an Active is a black
    /// hole.
    fn start_hold_thread(
        &mut self,
        settings: hold::Settings,
        realtime: bool,
        stop_on_panic: &StopOnPanic,
        events: &EventSender,
    ) -> io::Result<()> {
        let (shared, stop_on_panic) = (Arc::clone(&self.shared), stop_on_panic.clone());
        let is_fatal = move |panic: &str| {
            let binds = shared.handles().iter().any(|handle| match handle.plan().hold {
                Hold::Respond => false,
                Hold::Address | Hold::Vmac => true,
            });
            if binds {
                stop_on_panic.stop("windlass-hold", panic);
            }
            binds
        };
        let withdrawn = Arc::clone(&self.shared);
        let withdraw = move |error: &str| withdrawn.withdraw_forwarding(error);
        let (shared, inbox, events) = (Arc::clone(&self.shared), Arc::clone(&self.inbox), events.clone());
        let hold = move |helper: &Helper| {
            if realtime {
                realtime::hold_thread();
            }
            hold::run(&shared, &inbox, &events, &settings, helper);
            Ok(())
        };
        self.hold_thread = Some(self.supervisor.spawn("windlass-hold", withdraw, is_fatal, hold)?);
        Ok(())
    }

    /// Starts the thread that announces routes to BGP peers, and the one that detects dead ones.
    fn start_speaker(&mut self, realtime: bool, events: &EventSender) -> io::Result<()> {
        let (speaking, withdrawn, bfd, to_user) =
            (Arc::clone(&self.speaking), Arc::clone(&self.speaking), Arc::clone(&self.bfd), events.clone());
        let withdraw = move |_: &str| withdrawn.withdraw_status();
        let speak = move |helper: &Helper| {
            speaking.run(&to_user, &bfd, helper);
            Ok(())
        };
        self.speaker_thread = Some(self.supervisor.spawn("windlass-bgp", withdraw, |_| false, speak)?);
        let (bfd, withdrawn, events) = (Arc::clone(&self.bfd), Arc::clone(&self.bfd), events.clone());
        let withdraw = move |_: &str| withdrawn.withdraw_status();
        let detect = move |helper: &Helper| {
            if realtime {
                realtime::bfd_thread();
            }
            bfd.run(&events, helper);
            Ok(())
        };
        self.bfd_thread = Some(self.supervisor.spawn("windlass-bfd", withdraw, |_| false, detect)?);
        Ok(())
    }

    /// Declares which virtual routers shall run: new ones start, missing ones resign (priority 0) and stop, changed ones are updated in
    /// place. Returns immediately; the last call wins. Of several with one key the last counts. A router that cannot run is reported as
    /// [`Event::Failed`], with its remedy, and tried again by itself; the others run.
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

    /// Declares the ports of VIPs and the sources that may send to each, of this node's virtual routers and of others': packets of other
    /// sources are dropped, and packets for no port of a VIP are refused, from this node itself as well, before any NAT rule sees them.
    /// Needs [`Options::guard`]. Returns immediately; the last call wins. [`Engine::guard_status`] returns what is in force: a caller that
    /// must not admit other sources names a restricted VIP to [`Engine::apply`] once its restrictions are.
    ///
    /// A connection that NAT rules have translated does not outlive its permission. Where its port, its client's source range or all
    /// owners of its address go, or others own the address instead, its packets are refused (TCP: reset) in both directions for
    /// [`Options::ending_notice`], and then the kernel forgets it; where others own the address, immediately.
    pub fn restrict(&self, restrictions: Arc<Restrictions>) {
        self.endings.follow(restrictions);
    }

    /// Declares the addresses that this node and others serve together: packets that arrive for one are sent to the node that serves their
    /// lot, before this node's IP stack sees them, and keep the client's address. Answers go to the client directly. Which node receives
    /// them from clients is decided by [`Engine::apply`]; the same is declared on all nodes. Connections whose lot gets another node
    /// go on if the former one is named ([`Share::former`](crate::Share::former)): a node passes packets of connections that it does not know
    /// to the other nodes of their lot, which needs [`Options::guard`] and [`Options::connection_forwarding`]. Writes an nftables table of its own, of family `netdev`, named after [`Options::table`] with `-sharing`, and removes it at
    /// the end. Needs CAP_NET_ADMIN. Returns immediately; the last call wins. [`Engine::sharing_status`] returns what is in force.
    pub fn share(&self, shares: Arc<Shares>) {
        self.sharing.follow(shares);
    }

    /// Returns which addresses are shared, and the reason if they are not the declared ones.
    pub fn sharing_status(&self) -> Arc<SharingStatus> {
        self.sharing.status()
    }

    /// Tries whether the kernel can do what [`Engine::share`] needs, without a change that lasts. In the network namespace of the calling
    /// thread, which waits for the kernel.
    pub fn try_sharing(&self) -> Result<(), SharingError> {
        try_sharing(&format!("{}-trial", self.sharing.table()))
    }

    /// Returns the number of packets to shared addresses that were sent to other nodes since the table was made, as the kernel counts them.
    /// Under the same conditions.
    pub fn directed_packets(&self) -> Result<u64, SharingError> {
        Sharing::directed_packets(self.sharing.table())
    }

    /// Returns which restrictions are in force. [`Event::GuardChanged`] reports a change.
    pub fn guard_status(&self) -> Arc<GuardStatus> {
        self.shared.guard_status()
    }

    /// Declares the BGP peers, 16 sessions at most, and the routes of each. New peers are connected to, missing ones are left in order (all
    /// routes withdrawn, then a Cease), others keep their sessions. Returns immediately; the last call wins. [`Event::SessionChanged`] and
    /// [`Event::RoutesAcknowledged`] report the effects.
    pub fn speak(&self, speaker: Speaker) {
        self.speaking.speak(speaker);
    }

    /// Returns the sessions with BGP peers. A gateway that no default route has is not among them.
    pub fn speaker_status(&self) -> Arc<Vec<SessionStatus>> {
        self.speaking.status()
    }

    /// Returns the BFD sessions with BGP peers, and the packets that were dropped. [`Event::BfdChanged`] reports changes.
    pub fn bfd_status(&self) -> Arc<BfdStatus> {
        self.bfd.status()
    }

    /// Returns the status of forwarding for connections of VIPs that were handed over.
    pub fn forwarding_status(&self) -> Arc<ForwardingStatus> {
        self.shared.forwarding_status()
    }

    /// Returns the status of replication for the connections of VIPs.
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

    /// Returns true if a process of this machine runs a virtual router of this VRID on this interface, in the default group or, by unicast
    /// alone, in none. In the network namespace of the calling thread.
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

    /// Asks hosts, of the family of `own`, whether their answers to this address of this node arrive by `interface`, as answers of backends
    /// to a VIP on the same LAN would. Each host is also asked from the address that the kernel chooses, to distinguish a host that is down
    /// from one whose answers take another way. By ICMP, which the kernel of any host answers. The entry of a host records whether it
    /// answered within `limit` at all, and whether by `interface`; hosts of the other family have none.
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

    /// Returns the thread that panicked, if one did; [`Event::Stopped`] reports it.
    pub fn stopped_by(&self) -> Option<&'static str> {
        self.stopped_by.get().copied()
    }

    /// The threads that the election does not need, and what keeps them from their work. [`Event::HelperAway`] and [`Event::HelperBack`]
    /// report changes.
    pub fn helpers(&self) -> Vec<HelperStatus> {
        self.supervisor.status()
    }

    /// Returns the largest lateness of a timer since the last call, for one user that calls it repeatedly. A Backup has such timers, too.
    pub fn take_recent_lateness(&self) -> Duration {
        self.lateness.take_recent()
    }

    /// Returns the lateness of timers since the start.
    pub fn lateness(&self) -> Lateness {
        self.lateness.read()
    }

    /// Leaves all BGP peers, within 4 s, resigns everything, releases all VIPs and joins the threads. VIPs on an interface stay, and
    /// connections that other nodes serve are forwarded, until a peer has announced the VIPs, for the router's interval and 100 ms at most.
    /// Events until then are delivered before it returns, unless [`Options::on_event`] blocks for more than a second or is what calls it.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let directs = !self.sharing.status().in_force.services.is_empty();
        let forwards = directs || self.shared.forwarding_status().addresses > 0;
        // Beside all else: peers take their time to acknowledge it.
        self.speaking.stop();
        // The timer thread first: resigning needs the others' sockets. A thread that panicked has nothing to resign.
        self.inbox.stop();
        if let Some(thread) = self.timer_thread.take() {
            let _ = thread.join();
        } // What others serve is sent to them until its clients have heard of the next Active.
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
        self.endings.stop();
        self.sharing.stop();
        self.links.stop();
        self.supervisor.stop();
        if let Some(thread) = self.neighbour_thread.take() {
            let _ = thread.join();
        }
        // What it put on interfaces is removed before the end.
        if let Some(thread) = self.hold_thread.take() {
            thread.join();
        }
        for thread in self.helpers.drain(..) {
            thread.finish(GRACE);
        }
        if let Some(thread) = self.speaker_thread.take() {
            thread.finish(LEAVING);
        }
        // BGP peers were left before.
        self.bfd.stop();
        if let Some(thread) = self.bfd_thread.take() {
            thread.finish(GRACE);
        }
        // Last: with the threads the senders of events are gone.
        if let Some(event_thread) = self.event_thread.take() {
            event_thread.finish(GRACE);
        }
    }
}

/// Closes the inbox when the timer thread ends, however it does: no thread waits for its answers any more.
struct CloseOnExit(Arc<Inbox>);

impl Drop for CloseOnExit {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Ends the engine after a panic of a thread that the election needs: an Active would else be a black hole, so all routers resign. After a
/// panic of the timer thread itself this node stops sending with the next advert that is due, and the peers take over as from a dead one.
#[derive(Clone)]
struct StopOnPanic {
    inbox: Arc<Inbox>,
    events: EventSender,
    stopped_by: Arc<OnceLock<&'static str>>,
}

impl StopOnPanic {
    fn stop(&self, thread: &'static str, panic: &str) {
        tracing::error!(thread, panic, "a thread of the engine panicked: all virtual routers resign");
        let _ = self.stopped_by.set(thread);
        self.inbox.stop();
        self.events.send(Event::Stopped { thread });
    }
}

/// Starts a thread that the election needs.
fn spawn(
    name: &'static str,
    stop_on_panic: &StopOnPanic,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let stop_on_panic = stop_on_panic.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Its state goes with the panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            stop_on_panic.stop(name, panic_text(&*panic));
        }
    })
}

fn no_thread(source: io::Error) -> StartError {
    StartError::Os { what: "start a thread", source }
}
