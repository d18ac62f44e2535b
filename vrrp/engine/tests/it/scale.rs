//! Many virtual routers.

use windlass_engine::{Interval, Priority, RouterConfig, State, Vrid};

use crate::lab::{Host, LIMIT, require_root, take_all_turns};

const LINKS: u8 = 8;
const ROUTERS_A_LINK: u8 = 250;

/// Two thousand: 250 on each of 8 cables between two hosts.
fn routers(host: u8, priority: u8) -> Vec<RouterConfig> {
    let of_link = |link: u8| {
        (1..=ROUTERS_A_LINK).map(move |vrid| RouterConfig {
            priority: Priority::new(priority).unwrap(),
            interval: Interval::SECOND,
            peers: [[10, 0, link, 3 - host].into()].into(),
            addresses: [[10, 1, link, vrid].into()].into(),
            ..RouterConfig::new(format!("e{link}"), Vrid::new(vrid).unwrap(), [10, 0, link, host].into())
        })
    };
    (0..LINKS).flat_map(of_link).collect()
}

#[test]
fn two_thousand_routers_elect_and_fail_over() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let hosts = [Host::new(), Host::new()];
    for link in 0..LINKS {
        hosts[0].ip(&format!("link add e{link} type veth peer name e{link} netns {}", hosts[1].tid()));
        for (host, address) in hosts.iter().zip([1, 2]) {
            host.ip(&format!("addr add 10.0.{link}.{address}/24 dev e{link}"));
            host.ip(&format!("link set e{link} up"));
        }
    }
    let (first, second) = (hosts[0].engine(), hosts[1].engine());
    first.engine.apply(routers(1, 200));
    second.engine.apply(routers(2, 100));
    let all = usize::from(LINKS) * usize::from(ROUTERS_A_LINK);
    let deadline = std::time::Instant::now() + LIMIT * 3;
    let await_count = |what: &str, count: &dyn Fn() -> usize| {
        while count() != all {
            assert!(std::time::Instant::now() < deadline, "{} of {all} {what}", count());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    await_count("Active", &|| first.engine.snapshot().iter().filter(|s| s.state == State::Active).count());
    await_count("Backup that know the Active", &|| {
        let all = second.engine.snapshot();
        all.iter().filter(|s| s.state == State::Backup && s.active.is_some()).count()
    });
    first.engine.shutdown();
    await_count("Active after the resignations", &|| {
        second.engine.snapshot().iter().filter(|s| s.state == State::Active).count()
    });
    println!("lateness: {:?}", second.engine.lateness());
}
