//! Random histories. `WINDLASS_SIM_SEED=4711` plays that one alone, `WINDLASS_SIM_CASES=100000` plays more.

use super::*;
use crate::tests::prefix;
use crate::wire::{Communities, Community};

/// Number that a plain test run plays.
const CASES: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

fn routes(random: &mut Random) -> Routes {
    let mark = |random: &mut Random| {
        let communities = Communities::new([Community(random.below(3).try_into().unwrap())]).unwrap();
        Arc::new(Attributes { communities, ..Attributes::default() })
    };
    let count = [0, 3, 40, 2000][usize::try_from(random.below(4)).unwrap()];
    let vip = |n: u64| match n % 2 {
        0 => prefix(&format!("10.0.{}.{}", n / 256, n % 256)),
        _ => prefix(&format!("2001:db8::{n:x}")),
    };
    let mut routes = Routes::new();
    for n in 0..count {
        if random.below(3) > 0 {
            routes.insert(vip(n), mark(random));
        }
    }
    routes
}

/// Something happens.
fn act(world: &mut World) {
    let mut random = Random::new(world.random.roll());
    match random.below(12) {
        0 | 1 => world.set_routes(routes(&mut random)),
        2 => world.refresh(if random.below(2) == 0 { Family::V4 } else { Family::V6 }),
        3 => {
            world.disturb();
            world.link.is_cut = !world.link.is_cut;
        }
        4 => {
            world.disturb();
            world.link.loss = [0, 100, 300, 900][usize::try_from(random.below(4)).unwrap()];
        }
        5 => world.crash_router(),
        6 | 7 => world.restart_router(),
        8 => {
            world.frozen_until = world.now + Duration::from_millis(random.below(12_000));
            world.disturb();
        }
        9 => world.stop(),
        10 => world.start(),
        _ => {}
    }
}

/// Plays the history of a seed.
fn play(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..world.random.below(25) {
        let pause = [5, 300, 2000, 15_000][usize::try_from(world.random.below(4)).unwrap()];
        let pause = Duration::from_millis(world.random.below(pause));
        world.run_for(pause);
        // Steady loss is a fault all the time.
        if world.link.is_cut || world.link.loss > 0 || world.router_bfd.is_none() {
            world.disturb();
        }
        act(&mut world);
    }
    world.disturb();
    (world.link.is_cut, world.link.loss) = (false, 0);
    world.restart_router();
    world.run_for(Duration::from_secs(20));
    world.start();
    // The longest wait for the next attempt is 120 s.
    world.run_for(Duration::from_secs(150));
    world
}

// shows: bgp B20, B21, B40, B57, B60, B84
#[test]
fn the_invariants_hold_through_random_histories() {
    let (first, cases) = (number("WINDLASS_SIM_SEED"), number("WINDLASS_SIM_CASES"));
    let cases = cases.unwrap_or(if first.is_some() { 1 } else { CASES });
    let first = first.unwrap_or(0);
    let mut ends = 0;
    for seed in first..first + cases {
        println!("seed {seed}");
        let world = play(seed);
        assert!(world.is_calm(), "{world:#?}");
        ends += world.downs.len();
    }
    assert!(cases < CASES || ends > 60, "the histories ended {ends} sessions only");
}

#[test]
fn a_history_plays_the_same_each_time() {
    for seed in 0..5 {
        assert_eq!(play(seed).downs, play(seed).downs, "seed {seed}");
    }
}
