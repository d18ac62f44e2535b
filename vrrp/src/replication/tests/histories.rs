//! Long histories of faults, in which the simulator checks at every step what must always hold.

use super::simulator::{GOOD, Lan, World};
use super::*;

const SEEDS: [u64; 3] = [1, 2, 3];

fn bad(loss: u64) -> Lan {
    Lan { loss, duplicated: 100, jitter: Duration::from_millis(4), attacks: 300 }
}

/// Seeds that are always tried, and one that nobody tried (`CONTRIBUTING.md`).
fn seeds() -> Vec<u64> {
    let new = std::env::var("WINDLASS_NEW_SEED").ok().and_then(|seed| seed.parse().ok());
    SEEDS.into_iter().chain(new).collect()
}

#[test]
fn three_backups_have_ten_thousand_connections_within_seconds_while_they_change() {
    let mut world = World::new(1, 3, GOOD);
    world.add(10_000);
    world.churn = 2000;
    world.run_for(Duration::from_secs(2));
    assert!(world.in_sync_checks > 0);
    world.assert_settles();
    for backup in &world.backups {
        assert_eq!(backup.sender.counters().snapshots, 1);
        assert_eq!(backup.sender.counters().resent, 0);
    }
}

/// Without loss there is no reason for a second snapshot, and a Backup is nearly always in sync.
#[test]
fn on_a_good_lan_a_backup_is_in_sync() {
    let mut world = World::new(2, 1, GOOD);
    world.add(1000);
    world.churn = 500;
    world.run_for(Duration::from_secs(1));
    let (checks, in_sync) = (world.checks, world.in_sync_checks);
    world.run_for(Duration::from_secs(8));
    let (checks, in_sync) = (world.checks - checks, world.in_sync_checks - in_sync);
    assert!(in_sync * 100 >= checks * 95, "{in_sync} of {checks}");
    assert_eq!(world.backups[0].receiver.counters().snapshots, 1);
}

#[test]
fn no_rate_of_loss_up_to_a_half_needs_a_second_snapshot() {
    for loss in [10, 100, 300, 500] {
        let mut world = World::new(loss, 2, bad(loss));
        world.add(1500);
        world.churn = 200;
        world.run_for(Duration::from_secs(5));
        world.assert_settles();
        for backup in &world.backups {
            assert_eq!(backup.sender.counters().overflows, 0);
            assert!(backup.sender.counters().resent > 0);
            assert!(backup.sender.counters().snapshots <= 2, "{loss}: {:?}", backup.sender.counters());
        }
        assert!(world.in_sync_checks > 0, "{loss}");
    }
}

#[test]
fn whatever_happens_all_have_the_same_once_the_lan_is_good() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, bad(100));
        world.add(1000);
        world.churn = 200;
        for _ in 0..3 {
            for _ in 0..3 {
                happen(&mut world);
                let pause = world.random.duration(Duration::from_millis(1500));
                world.run_for(pause);
            }
            for backup in 0..world.backups.len() {
                if !world.backups[backup].running {
                    world.restart_backup(backup);
                }
            }
            if !world.active_running {
                world.restart_active(false);
            }
            world.assert_settles();
            world.lan = bad(world.random.below(500));
        }
    }
}

fn happen(world: &mut World) {
    let chosen = usize::try_from(world.random.below(world.backups.len() as u64)).unwrap();
    match world.random.below(9) {
        0 => {
            let clock_went_back = world.random.chance(500);
            world.restart_active(clock_went_back);
        }
        1 => world.restart_backup(chosen),
        // Dies, perhaps in the midst of a snapshot.
        2 => world.active_running = false,
        3 => world.backups[chosen].running = false,
        // Nothing arrives.
        4 => world.lan.loss = 1000,
        5 => world.lan = bad(world.random.below(500)),
        // More changes at once than may wait.
        6 => world.add(1000),
        // Other things need the kernel's table, or need it no more.
        7 => {
            let room = usize::try_from(world.random.below(3000)).unwrap();
            world.set_room(chosen, room);
        }
        _ => world.churn = 50 + world.random.below(500),
    }
}

#[test]
fn who_joins_in_the_midst_of_anothers_snapshot_gets_its_own() {
    let mut world = World::new(5, 2, bad(50));
    world.backups[1].running = false;
    world.add(10_000);
    world.run_for(Duration::from_millis(60));
    assert!(!world.backups[0].receiver.connections().is_empty());
    assert!(!world.backups[0].receiver.is_in_sync(world.now));
    world.restart_backup(1);
    world.churn = 1000;
    world.run_for(Duration::from_secs(3));
    world.assert_settles();
}

#[test]
fn an_active_that_dies_in_the_midst_of_a_resynchronisation_leaves_what_was_there() {
    let mut world = World::new(6, 1, GOOD);
    world.add(10_000);
    world.run_for(Duration::from_secs(2));
    world.restart_active(false);
    world.run_for(Duration::from_millis(60));
    assert!(!world.backups[0].receiver.is_in_sync(world.now));
    world.active_running = false;
    world.run_for(Duration::from_mins(1));
    assert_eq!(world.differences(0), []);
    // Until it has been silent for long.
    world.run_for(Duration::from_mins(5));
    assert!(world.backups[0].kernel.is_empty());
}

/// 200,000 connections at the default pace.
#[test]
fn a_snapshot_of_200_000_connections_takes_some_seconds() {
    for (vip_number, limit) in [(0, 1900), (1, 4900)] {
        let mut table = Connections::default();
        for number in 0..200_000 {
            table.put(connection(vip_number, number, 1)).unwrap();
        }
        let mut sender = Sender::new(Epoch { start: 1, random: 1 }, SenderConfig::default(), vips(2), at(0));
        let mut receiver = Receiver::new(1, ReceiverConfig::default(), vips(2), at(0));
        let (mut millis, mut bytes) = (0_u64, 0);
        while !receiver.is_in_sync(at(millis)) {
            assert!(millis < limit, "{} after {millis} ms", receiver.connections().len());
            millis += 1;
            while let Some(message) = sender.poll_transmit(&table, at(millis)) {
                bytes += message.len();
                receiver.receive(Message::decode(&message).unwrap(), at(millis));
            }
            while let Some(message) = receiver.poll_transmit(at(millis)) {
                sender.receive(&Message::decode(&message).unwrap(), at(millis));
            }
        }
        println!("{bytes} bytes in {millis} ms");
        assert_eq!(receiver.connections().summary(&vips(2)), table.summary(&vips(2)));
    }
}
