//! This program as one of the two nodes.

use std::sync::Arc;

use nix::sys::signal::{SigSet, Signal};
use windlass_engine::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring};
use windlass_engine::{
    ConnectionForwarding, Engine, Event, Family, Hold, Interval, Options, Priority, Protocol, ProtocolPort,
    Restrictions, RouterConfig, Vrid,
};

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
    let guarded = if case.guarded { "guarded" } else { "unguarded" };
    let authenticated = if case.authenticated { "authenticated" } else { "open" };
    let names = [case.family_name(), case.hold_name(), guarded, authenticated].map(str::to_owned);
    [ROLE.to_owned()].into_iter().chain(numbers).chain(names).collect()
}

/// Runs the node until SIGTERM.
pub(crate) fn run(arguments: &[String]) {
    let [node, routers, vips, interval_ms, family, hold, guarded, authenticated] = arguments else {
        panic!(
            "routers: {arguments:?}: wanted are node, routers, VIPs, interval, family, hold, guarded, authenticated"
        )
    };
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|error| panic!("{text}: {error}"));
    let case = Case {
        routers: number(routers),
        vips: number(vips),
        interval_ms: interval_ms.parse().unwrap(),
        family: if family == "v6" { Family::V6 } else { Family::V4 },
        hold: if hold == "address" { Hold::Address } else { Hold::Respond },
        guarded: guarded == "guarded",
        authenticated: authenticated == "authenticated",
    };
    // Before there are threads, so that all of them leave the signal to the wait below.
    let mut end = SigSet::empty();
    end.add(Signal::SIGTERM);
    end.thread_block().expect("block SIGTERM");
    // Of many, printing all would take time.
    let talkative = case.routers == 1;
    let mut options = Options::new(move |event| match event {
        Event::Failed { key, error } => eprintln!("{key}: {error}"),
        other if talkative => eprintln!("{other:?}"),
        _ => {}
    });
    options.guard = case.guarded;
    options.connection_forwarding = case.guarded.then(ConnectionForwarding::default);
    let engine = Engine::start(options).expect("start the engine");
    let routers = configuration(case, number(node));
    if case.guarded {
        engine.restrict(Arc::new(four_ports(&routers)));
    }
    engine.apply(routers);
    end.wait().expect("wait for SIGTERM");
    engine.shutdown();
}

/// For each VIP.
fn four_ports(routers: &[RouterConfig]) -> Restrictions {
    let mut restrictions = Restrictions::default();
    for vip in routers.iter().flat_map(|router| &router.addresses) {
        let ports = [80, 443, 8080, 8443].map(|port| ProtocolPort { protocol: Protocol::Tcp, port });
        restrictions.only_ports(*vip, ports);
    }
    restrictions
}

/// The nodes' keyring has secret 1.
pub(crate) fn keyring(secret: u8) -> Keyring {
    Keyring::new(KeyId::new(1).unwrap(), Key::new(&[secret; 32]).unwrap())
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
                authentication: case.authenticated.then(|| Authentication {
                    keyring: keyring(1),
                    mode: AuthMode::Enforce,
                    anti_replay: AntiReplay::Monotonic,
                }),
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
