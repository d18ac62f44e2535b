//! Asks hosts for the return path of answers while connections are to be replicated.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, Family, InterfaceInfo};

use super::super::super::desired::Desired;
use super::answers::Answers;
use super::filters::Filters;
use super::{View, WayBack, WaysBack, words};
use crate::parts::blocking;

/// Interval between checks whether connections are to be replicated, in addition to each change.
const IDLE: Duration = Duration::from_secs(10);
/// Interval at which routes are read and hosts are asked: a path that starts to drop answers costs connections until then.
const EVERY: Duration = Duration::from_secs(2);
/// Least interval per host that is asked: on average as many nodes ask as are asked.
const FOR_EACH: Duration = Duration::from_millis(40);
/// Timeout for answers.
const LIMIT: Duration = Duration::from_secs(1);

/// Segments, each with its virtual IPs.
type Segments = BTreeMap<(String, Family), Segment>;

#[derive(Debug, Default)]
struct Segment {
    /// Source of this node's adverts.
    source: Option<IpAddr>,
    vips: BTreeSet<IpAddr>,
}

/// Examines the return paths until `token` is cancelled.
pub(crate) async fn follow(
    desired: &mut watch::Receiver<Option<Arc<Desired>>>,
    found: &watch::Sender<WaysBack>,
    token: &CancellationToken,
) {
    let (mut answers, mut due) = (Answers::default(), Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            // A new segment is examined immediately.
            Ok(()) = desired.changed() => {
                let has_all = |desired: &Desired| found.borrow().has_all(desired);
                if desired.borrow_and_update().as_deref().is_none_or(has_all) {
                    continue;
                }
            }
            () = token.cancelled() => return,
        }
        let wanted = desired.borrow_and_update().as_deref().map(segments).unwrap_or_default();
        let looked = blocking(move || {
            let (ways, pause) = look(&wanted, &mut answers);
            (ways, pause, answers)
        });
        let Some((ways, pause, known)) = looked.await else { return };
        answers = known;
        due = Instant::now() + pause;
        found.send_if_modified(|known| {
            let is_news = *known != ways;
            if is_news {
                for (segment, way) in ways.0.iter().filter(|(segment, way)| known.0.get(*segment) != Some(*way)) {
                    tracing::info!(interface = segment.0, family = %segment.1, "{}", words::of_way(way, &segment.0));
                }
                *known = ways;
            }
            is_news
        });
    }
}

impl WaysBack {
    fn has_all(&self, desired: &Desired) -> bool {
        segments(desired).keys().all(|segment| self.0.contains_key(segment))
    }
}

/// Returns the segments where connections are to be replicated.
fn segments(desired: &Desired) -> Segments {
    let mut segments = Segments::new();
    for assignment in desired.assignments.iter().filter(|one| one.replicates()) {
        let segment = segments.entry(super::segment(assignment)).or_default();
        segment.source = Some(assignment.source);
        segment.vips.extend(&assignment.addresses);
    }
    segments
}

/// Examines the segments once and asks their hosts. Returns the result and the pause before the next look.
fn look(segments: &Segments, answers: &mut Answers) -> (WaysBack, Duration) {
    if segments.is_empty() {
        return (WaysBack::default(), IDLE);
    }
    let read = || Ok::<_, io::Error>((Engine::link_kinds()?, Engine::routes()?, Engine::interfaces()?));
    let (links, routes, interfaces) = match read() {
        Ok(read) => read,
        Err(error) => {
            let unknown = WayBack::Unknown { reason: error.to_string() };
            let ways = segments.keys().map(|segment| (segment.clone(), unknown.clone()));
            return (WaysBack(ways.collect()), EVERY);
        }
    };
    let info = |name: &str| interfaces.iter().find(|info| info.name == name);
    let views: Vec<View<'_>> = segments
        .iter()
        .map(|((interface, family), segment)| View {
            interface,
            family: *family,
            own: segment.own_address(info(interface)),
            links: &links,
            routes: &routes,
        })
        .collect();
    let mut asked = BTreeSet::new();
    for view in &views {
        let (Some(own), hosts) = (view.own, view.hosts().collect::<BTreeSet<_>>()) else { continue };
        if hosts.is_empty() {
            continue;
        }
        asked.extend(hosts.iter().map(|host| (own, *host)));
        match Engine::ask_way_back(own, view.interface, &hosts, LIMIT) {
            Ok(heard) => answers.note(own, &heard),
            Err(error) => {
                tracing::debug!(%error, %own, view.interface, "cannot ask whether answers arrive");
            }
        }
    }
    answers.keep_only(&asked);
    let filters = Filters::read(views.iter().map(|view| view.interface).collect::<BTreeSet<_>>());
    let way = |view: &View<'_>| ((view.interface.to_owned(), view.family), view.way_back(answers, &filters));
    let ways = views.iter().map(way);
    let for_all = FOR_EACH * u32::try_from(asked.len()).unwrap_or(u32::MAX);
    (WaysBack(ways.collect()), EVERY.max(for_all))
}

impl Segment {
    /// Returns the address from which hosts are asked: an own one to which answers take the same path as answers to the virtual IPs.
    fn own_address(&self, interface: Option<&InterfaceInfo>) -> Option<IpAddr> {
        match self.source? {
            source @ IpAddr::V4(_) => Some(source),
            // Adverts of IPv6 come from an address that is none beyond the link.
            IpAddr::V6(_) => {
                let mut own = interface?.ipv6.iter().filter(|(address, _)| !address.is_unicast_link_local());
                let is_near = |(address, length): &&(Ipv6Addr, u8)| {
                    let range = IpNet::new((*address).into(), *length);
                    range.is_ok_and(|range| self.vips.iter().any(|vip| range.contains(vip)))
                };
                own.find(is_near).map(|(address, _)| (*address).into())
            }
        }
    }
}
