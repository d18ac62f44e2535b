//! Users who block, or call the engine, when they are told of an event.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use windlass_engine::{Engine, Options, RouterStatus, State};

use crate::lab::{Host, LIMIT, Lan, await_some, require_root, router, source};

fn engine(host: &Host, on_event: impl Fn() + Send + Sync + 'static) -> Engine {
    let options = Options::new(move |_| on_event());
    host.run(move || Engine::start(options).unwrap())
}

fn await_status(engine: &Engine, what: &str, accept: impl Fn(&RouterStatus) -> bool) {
    await_some(what, || engine.snapshot().first().filter(|status| accept(status)).map(drop));
}

#[test]
fn a_user_who_never_returns_keeps_neither_failover_nor_shutdown_waiting() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (free, blocked) = channel::<()>();
    let blocked: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(blocked));
    let [first, second] = [0, 1].map(|host| {
        let blocked = Arc::clone(&blocked);
        let engine = engine(&lan.hosts[host], move || {
            let _ = blocked.lock().unwrap().recv();
        });
        engine.apply(vec![router(host, 2)]);
        engine
    });
    await_status(&first, "Active", |status| status.state == State::Active);
    await_status(&second, "Backup", |status| status.active == Some(source(0)));
    first.shutdown();
    await_status(&second, "takeover", |status| status.state == State::Active);
    second.shutdown();
    drop(free);
}

#[test]
fn a_user_may_call_the_engine_and_end_it_from_an_event() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let handle: Arc<OnceLock<Mutex<Weak<Engine>>>> = Arc::default();
    let (tell, told) = channel();
    let (user, tell) = (Arc::clone(&handle), Mutex::new(tell));
    let engine = Arc::new(engine(&lan.hosts[0], move || {
        let engine = user.get().and_then(|engine| engine.lock().unwrap().upgrade());
        let Some(engine) = engine else { return };
        let state = engine.snapshot().first().map(|status| status.state);
        engine.apply(vec![router(0, 1)]);
        // From the second on this is the only handle.
        drop(engine);
        let _ = tell.lock().unwrap().send(state);
    }));
    handle.set(Mutex::new(Arc::downgrade(&engine))).unwrap();
    engine.apply(vec![router(0, 1)]);
    // The guard tells of itself, too, when it is in place.
    while told.recv_timeout(LIMIT).expect("the event of its start") != Some(State::Backup) {}
    drop(engine);
    await_some("the engine's end", || handle.get()?.lock().unwrap().upgrade().is_none().then_some(()));
}
