use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use windlass_vrrp::{State, TransitionReason};

use crate::lab::{Host, Lan, await_some, require_root, router, source};
use crate::{Event, Restrictions};

/// The thread of an engine that is to panic: its name and its network namespace.
static DOOMED: Mutex<Option<(&'static str, PathBuf)>> = Mutex::new(None);

fn namespace() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/net").expect("the thread's namespace")
}

pub(crate) fn round() {
    let doomed = DOOMED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((name, of)) = doomed
        && thread::current().name() == Some(name)
        && namespace() == of
    {
        std::panic::panic_any("as the test wants it");
    }
}

/// Has a thread of an engine in the host's namespace panic, once something wakes it.
fn doom(host: &Host, thread: Option<&'static str>) {
    let doomed = thread.map(|thread| (thread, host.run(namespace)));
    *DOOMED.lock().unwrap_or_else(PoisonError::into_inner) = doomed;
}

#[test]
fn if_any_thread_panics_the_engine_stops_says_so_and_a_peer_takes_over() {
    if !require_root() {
        return;
    }
    for thread in ["windlass-neighbour", "windlass-hold", "windlass-links", "windlass-vrrp"] {
        let lan = Lan::new(2);
        let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
        first.engine.apply(vec![router(0, 2)]);
        second.engine.apply(vec![router(1, 2)]);
        first.await_status("Active", |status| status.state == State::Active);
        second.await_status("Backup that hears it", |status| status.active == Some(source(0)));
        second.forget_events();

        doom(&lan.hosts[0], Some(thread));
        let mut wider = router(0, 2);
        wider.addresses.insert("192.0.2.51".parse().unwrap());
        await_some("panic", || {
            first.engine.listen(&["eth0".to_owned()]);
            first.engine.restrict(Arc::new(Restrictions::default()));
            first.engine.apply(vec![wider.clone()]);
            first.engine.listen(&[]);
            first.engine.apply(vec![router(0, 2)]);
            first.engine.stopped_by()
        });
        doom(&lan.hosts[0], None);
        let stopped = first.await_event("end of the engine", |event| match event {
            Event::Stopped { thread } => Some(*thread),
            _ => None,
        });
        assert_eq!((stopped, first.engine.stopped_by()), (thread, Some(thread)));
        let reason = match thread {
            // Nobody else can say that it resigns.
            "windlass-vrrp" => TransitionReason::ActiveSilent,
            _ => TransitionReason::ActiveResigned,
        };
        assert_eq!(second.await_state(State::Active), reason, "{thread}");
        assert!(first.engine.snapshot().is_empty(), "{thread}: nobody is kept waiting for an answer");
    }
}
