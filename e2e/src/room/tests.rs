use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use super::*;

#[test]
fn no_more_labs_run_at_once_than_there_is_room_for() {
    let (room, used, most) = (Room::new(), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for size in [1, 2, 1, 4, 1, 1, 9, 2, 1, 2] {
            let (room, used, most) = (&room, &used, &most);
            scope.spawn(move || {
                let place = room.take(size, 4);
                let now = used.fetch_add(place.size, Ordering::SeqCst) + place.size;
                most.fetch_max(now, Ordering::SeqCst);
                thread::yield_now();
                used.fetch_sub(place.size, Ordering::SeqCst);
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 4, "{most:?} at once");
    assert_eq!(room.inner().used, 0);
}

#[test]
fn a_large_lab_is_not_overtaken_by_small_ones() {
    let room = Room::new();
    let first = room.take(3, 4);
    let waiting = |count: u64| {
        while room.inner().next < count {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| room.take(2, 4));
        waiting(2);
        // The small one would fit.
        scope.spawn(|| room.take(1, 4));
        waiting(3);
        assert_eq!(room.inner().used, 3, "the small one was let in");
        drop(first);
    });
    let inner = room.inner();
    assert_eq!((inner.used, inner.turn), (0, 3));
}
