//! This program as one of the two nodes.

use nix::sys::signal::{SigSet, Signal};
use windlass_engine::{Engine, Event, Family, Hold, Interval, Options, Priority, RouterConfig, Vrid};

use crate::case::Case;
use crate::shared::site::{interface, source_on, vip};

/// The argument that makes this program a node.
pub(crate) const ROLE: &str = "routers";
/// By node.
const PRIORITIES: [u8; 2] = [254, 250];

/// Arguments for the node with this number; with no peers it becomes Active at once.
pub(crate) fn arguments(case: Case, node: usize) -> Vec<String> {
    let Case { routers, vips, interval_ms, .. } = case;
    let numbers = [node.to_string(), routers.to_string(), vips.to_string(), interval_ms.to_string()];
    let names = [case.family_name().to_owned(), case.hold_name().to_owned()];
    [ROLE.to_owned()].into_iter().chain(numbers).chain(names).collect()
}

/// Runs the node until SIGTERM.
pub(crate) fn run(arguments: &[String]) {
    let [node, routers, vips, interval_ms, family, hold] = arguments else {
        panic!("routers: {arguments:?}: wanted are node, routers, VIPs, interval, family, hold")
    };
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|error| panic!("{text}: {error}"));
    let case = Case {
        routers: number(routers),
        vips: number(vips),
        interval_ms: interval_ms.parse().unwrap(),
        family: if family == "v6" { Family::V6 } else { Family::V4 },
        hold: if hold == "address" { Hold::Address } else { Hold::Respond },
    };
    // Before there are threads, so that all of them leave the signal to the wait below.
    let mut end = SigSet::empty();
    end.add(Signal::SIGTERM);
    end.thread_block().expect("block SIGTERM");
    // Of many, printing all would take time.
    let talkative = case.routers == 1;
    let options = Options::new(move |event| match event {
        Event::Failed { key, error } => eprintln!("{key}: {error}"),
        other if talkative => eprintln!("{other:?}"),
        _ => {}
    });
    let engine = Engine::start(options).expect("start the engine");
    engine.apply(configuration(case, number(node)));
    end.wait().expect("wait for SIGTERM");
    engine.shutdown();
}

fn configuration(case: Case, node: usize) -> Vec<RouterConfig> {
    let on_segment = |segment: usize| {
        (0..case.routers_on(segment)).map(move |router| {
            let vrid = u8::try_from(router + 1).expect("at most 250 on a segment");
            let numbers = router * case.vips..(router + 1) * case.vips;
            RouterConfig {
                priority: Priority::new(PRIORITIES[node]).unwrap(),
                interval: Interval::from_millis(case.interval_ms).unwrap(),
                peers: [source_on(case.family, segment, 1 - node)].into(),
                addresses: numbers.map(|number| vip(case.family, segment, number)).collect(),
                hold: case.hold,
                ..RouterConfig::new(
                    interface(segment),
                    Vrid::new(vrid).unwrap(),
                    source_on(case.family, segment, node),
                )
            }
        })
    };
    (0..case.segments()).flat_map(on_segment).collect()
}
