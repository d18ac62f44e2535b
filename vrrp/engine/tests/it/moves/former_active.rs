//! What becomes of connections when the former Active ends, or was not fit.

use super::*;
use crate::lab::take_all_turns;

/// The node that ends is asked until the client hears of the next Active, which here takes its time.
#[test]
fn connections_that_a_node_forwards_go_on_while_it_hands_the_vip_over_and_ends() {
    if !require_root() {
        return;
    }
    // The next Active has 218 ms to announce itself before the former one stops.
    let _turn = take_all_turns();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let mut connections = scene.connections();
    ask_all(&mut connections, 1, "before");
    scene.prefer_second(&nodes, true);
    scene.await_arrival(1);
    // Its skew time is 180 ms then.
    let slow = Priority::new(100).unwrap();
    nodes[0].engine.apply(scene.routers(0, |router| router.priority = slow));
    let (ended, pause) = (AtomicBool::new(false), Duration::from_millis(1));
    let [first, second] = nodes;
    std::thread::scope(|scope| {
        let busy: Vec<_> = connections
            .into_iter()
            .map(|connection| scope.spawn(|| connection.ask_until(&ended, pause)))
            .collect();
        second.engine.shutdown();
        await_active(&first, State::Active);
        scene.await_arrival(0);
        ended.store(true, Ordering::Relaxed);
        for connection in busy {
            let asked = connection.join().unwrap();
            assert!(asked.as_ref().is_ok_and(|asked| *asked > 0), "{asked:?}");
        }
    });
}

/// A server that hangs would keep its clients waiting on connections that lead back to it: their ends are told at once.
#[test]
fn connections_to_a_peer_that_was_not_fit_end_if_they_are_not_to_be_forwarded_to_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for forward_to_unfit in [true, false] {
        let scene = Scene::new(Mode::Nftables);
        let nodes = scene.nodes(ConnectionForwarding::default());
        let mut connections = scene.connections();
        ask_all(&mut connections, 1, "before");
        let fit_from = Priority::new(100).unwrap();
        let of = |n: usize, priority| {
            let priority = Priority::new(priority).unwrap();
            scene.routers(n, |router| {
                (router.priority, router.fit_from, router.forward_to_unfit) =
                    (priority, fit_from, forward_to_unfit);
            })
        };
        nodes[1].engine.apply(of(1, 180));
        nodes[0].engine.apply(of(0, 99));
        await_active(&nodes[1], State::Active);
        scene.await_arrival(1);
        for connection in &mut connections {
            let answer = connection.ask().map_err(|error| error.kind());
            let expected = if forward_to_unfit { Ok(1) } else { Err(ErrorKind::ConnectionReset) };
            assert_eq!(answer, expected, "forwarded to one that is not fit: {forward_to_unfit}");
        }
    }
}
