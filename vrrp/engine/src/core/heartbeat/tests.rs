use super::*;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

#[test]
fn it_beats_four_times_in_an_interval_and_tells_how_late() {
    let millis = Duration::from_millis;
    let mut heartbeat = Heartbeat::default();
    assert_eq!((heartbeat.due(), heartbeat.act(at(0))), (None, None), "nothing runs");
    heartbeat.follow(Some(millis(100)), at(0));
    assert_eq!((heartbeat.due(), heartbeat.act(at(24))), (Some(at(25)), None));
    assert_eq!(heartbeat.act(at(25)), Some(millis(0)));
    heartbeat.follow(Some(millis(100)), at(40));
    assert_eq!(heartbeat.act(at(180)), Some(millis(130)), "what is told again changes nothing");
    assert_eq!((heartbeat.act(at(180)), heartbeat.due()), (None, Some(at(205))), "and is not told twice");
    heartbeat.follow(Some(millis(20)), at(190));
    assert_eq!(heartbeat.due(), Some(at(195)));
    heartbeat.follow(None, at(190));
    assert_eq!(heartbeat.due(), None);
}
