//! Connections that are busy while the VIP moves.

use super::*;
use crate::lab::take_all_turns;

/// Connections that are busy all the time, through many moves to and fro: an hour of them in a few seconds. `WINDLASS_MOVES` takes
/// more.
#[test]
fn busy_connections_go_on_through_many_moves() {
    if !require_root() {
        return;
    }
    let _turn = take_all_turns();
    let rounds: u32 = std::env::var("WINDLASS_MOVES").map_or(2, |rounds| rounds.parse().unwrap());
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let ended = AtomicBool::new(false);
    let mut connections = scene.connections();
    connections.extend(scene.connections());
    std::thread::scope(|scope| {
        let ended = &ended;
        let busy = connections.into_iter().zip(1..).map(|(connection, pause)| {
            scope.spawn(move || connection.ask_until(ended, Duration::from_millis(pause * 5)))
        });
        let busy: Vec<_> = busy.collect();
        for _ in 0..rounds {
            scene.prefer_second(&nodes, true);
            scene.await_arrival(1);
            scene.prefer_second(&nodes, false);
            scene.await_arrival(0);
            silence(&scene.lan.hosts[0]);
            await_active(&nodes[1], State::Active);
            scene.await_arrival(1);
            run(&scene.lan.hosts[0], "nft -f -", "delete table inet silence; delete table arp silence");
            await_active(&nodes[1], State::Backup);
            scene.await_arrival(0);
        }
        ended.store(true, Ordering::Relaxed);
        let broken: Vec<String> = busy.into_iter().filter_map(|one| one.join().unwrap().err()).collect();
        assert_eq!(broken, [""; 0]);
    });
}
