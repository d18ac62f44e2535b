//! Following what the Active serves.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use windlass_dataplane::guard::{Guard, Guarded};
use windlass_kernel::connections::{Aging, AgingLimits, Connection, ConnectionKey, Event, Events};

use super::scene::{A, Backend, Scene, VIPS, asked, await_listed, echoes, key_of};
use crate::lab::{await_some, require_root};

/// What has the kernel tell of connections to VIPs what matters, and nothing else.
fn masks(scene: &Scene) -> Guard {
    let replicated = Guarded { replicated: VIPS.into(), ..Guarded::default() };
    scene.node(A).run(move || Guard::install("masks", &replicated).expect("install the guard"))
}

fn follow(scene: &Scene, vips: impl Into<BTreeSet<IpAddr>>) -> Events {
    let vips = vips.into();
    scene.node(A).run(move || Events::open(vips).expect("follow"))
}

/// The next event.
fn next(events: &mut Events) -> Event {
    await_some("an event", || {
        let heard = events.hear().expect("hear");
        if heard.is_none() {
            poll(&mut [PollFd::new(events.as_fd(), PollFlags::POLLIN)], PollTimeout::from(100_u8)).unwrap();
        }
        heard
    })
}

/// The events until each of these has ended or has begun to.
fn until_ended(events: &mut Events, mut keys: BTreeSet<ConnectionKey>) -> Vec<Event> {
    let mut heard = Vec::new();
    while !keys.is_empty() {
        let event = next(events);
        if let Event::Closing(key) | Event::Ended(key) = event {
            keys.remove(&key);
        }
        heard.push(event);
    }
    heard
}

fn established(events: &[Event]) -> Vec<Connection> {
    let mut found: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Established(connection) => Some(*connection),
            Event::Closing(_) | Event::Ended(_) | Event::Lost => None,
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn what_begins_and_ends_is_told_by_a_kernel_that_tells_all() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let mut events = follow(&scene, VIPS);
    let streams = scene.connections(3);
    let keys: BTreeSet<_> = streams.iter().map(key_of).collect();
    let listed = await_listed(&mut scene.tracking(A), 6);
    drop(streams);
    let mut heard = Vec::new();
    let ended = |heard: &[Event]| heard.iter().filter(|event| matches!(event, Event::Ended(_))).count();
    while ended(&heard) < 6 {
        heard.push(next(&mut events));
    }
    assert_eq!(established(&heard), listed, "each once, as it is listed");
    assert!(heard.iter().all(|event| !matches!(event, Event::Ended(key) if !keys.contains(key))));
}

#[test]
fn what_begins_and_is_closed_is_told_by_a_kernel_that_tells_what_matters() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let _guard = masks(&scene);
    let mut events = follow(&scene, VIPS);
    let streams = scene.connections(3);
    let keys: BTreeSet<_> = streams.iter().map(key_of).collect();
    let mut tracking = scene.tracking(A);
    let listed = await_listed(&mut tracking, 6);
    let all: Vec<_> = keys.iter().copied().collect();
    assert_eq!(tracking.are_open(&all).expect("look"), [true; 6]);
    drop(streams);
    let heard = until_ended(&mut events, keys);
    assert_eq!(established(&heard), listed, "each once, as it is listed");
    assert_eq!(heard.len(), 12, "and each end once: {heard:?}");
    await_some("the ends", || tracking.are_open(&all).ok().filter(|open| !open.contains(&true)));
}

#[test]
fn a_connection_that_is_reset_or_forgotten_has_ended() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let mut events = follow(&scene, VIPS);
    let streams = scene.connections(1);
    assert!(streams.iter().all(|stream| echoes(stream, 5)));
    let keys: Vec<_> = streams.iter().map(key_of).collect();
    assert_eq!(scene.tracking(A).delete(&keys[..1]).expect("delete"), 1);
    socket2::SockRef::from(&streams[1]).set_linger(Some(Duration::ZERO)).unwrap();
    drop(streams);
    until_ended(&mut events, keys.into_iter().collect());
}

#[test]
fn a_connection_is_told_when_it_has_lasted_a_second_and_a_short_one_never() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let _guard = masks(&scene);
    let mut events = follow(&scene, VIPS);
    let mut aging = Aging::new(AgingLimits::default());
    let lasting = scene.connections(2);
    let lasting_keys: BTreeSet<_> = lasting.iter().map(key_of).collect();
    let short: BTreeSet<_> = (0..20)
        .map(|n| {
            let stream = scene.connect(VIPS[n % 2]);
            assert!(echoes(&stream, 5));
            key_of(&stream)
        })
        .collect();
    let time = |millis: u64| windlass_vrrp::Time::from_nanos(millis * 1_000_000);
    for event in until_ended(&mut events, short) {
        assert_eq!(aging.hear(&event, time(0)), None, "none has lasted");
    }
    assert_eq!(aging.due(time(999)), None);
    let told: Vec<_> = std::iter::from_fn(|| aging.due(time(1000))).collect();
    assert_eq!(told.iter().map(|connection| connection.key).collect::<BTreeSet<_>>(), lasting_keys);
    assert_eq!(told.len(), 4, "each once");
    drop(lasting);
    let mut tracking = scene.tracking(A);
    for event in until_ended(&mut events, lasting_keys.clone()) {
        assert_eq!(aging.hear(&event, time(2000)), None, "one side has ended");
    }
    let mut ended = Vec::new();
    while let Some(key) = aging.to_look_at(time(7000)) {
        await_some("the end of the other", || tracking.are_open(&[key]).ok().filter(|open| !open[0]));
        ended.extend(aging.looked_at(&key, false, time(7000)));
    }
    assert_eq!(ended.len(), 4, "each once");
    assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), lasting_keys);
}

#[test]
fn events_that_were_lost_are_told() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let mut events = scene.node(A).run(|| Events::with_buffer(VIPS.into(), 4096).expect("follow"));
    let streams = scene.connections(20);
    await_listed(&mut scene.tracking(A), 40);
    await_some("the loss", || (next(&mut events) == Event::Lost).then_some(()));
    drop(streams);
}

#[test]
fn only_connections_to_the_vips_named_are_told() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let mut events = follow(&scene, [VIPS[1]]);
    let streams = scene.connections(1);
    assert!(streams.iter().all(|stream| echoes(stream, 5)));
    assert!(
        matches!(next(&mut events), Event::Established(connection) if connection.key == key_of(&streams[1]))
    );
    events.watch([VIPS[0]].into()).expect("watch");
    let keys = [key_of(&streams[0])];
    drop(streams);
    assert_eq!(next(&mut events), Event::Closing(keys[0]));
}

#[test]
fn a_udp_flow_is_told_when_it_lasts() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    let _guard = masks(&scene);
    let mut events = follow(&scene, VIPS);
    let flows = scene.flows(1);
    let mut heard = Vec::new();
    await_some("lasting flows", || {
        flows.iter().map(asked).for_each(drop);
        while let Some(event) = events.hear().expect("hear") {
            heard.push(event);
        }
        (heard.len() == 2).then_some(())
    });
    assert_eq!(established(&heard), await_listed(&mut scene.tracking(A), 2));
}

#[test]
fn a_kernel_that_tells_no_events_is_told_apart() {
    if !require_root() {
        return;
    }
    let scene = Scene::new(Backend::OnThirdHost);
    super::scene::set(scene.node(A), "netfilter/nf_conntrack_events", "0");
    let error = scene.node(A).run(|| Events::open(VIPS.into()).err()).expect("no events");
    assert!(error.to_string().contains("nf_conntrack_events is 0"), "{error}");
}
