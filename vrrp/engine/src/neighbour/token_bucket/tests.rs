use super::*;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn token_bucket(frames_per_second: u32) -> TokenBucket {
    TokenBucket::new(NonZeroU32::new(frames_per_second).unwrap())
}

/// Sends all it may for so long, woken as it asks to be; frames sent and times woken.
fn send(token_bucket: &mut TokenBucket, micros: u64) -> (usize, usize) {
    let (mut now, mut sent, mut woken) = (at(1_000_000), 0, 0);
    while now <= at(1_000_000 + micros) {
        let frames = token_bucket.allowance(now).min(32);
        if frames == 0 {
            now = token_bucket.next(now).max(now + Duration::from_micros(1));
            woken += 1;
        } else {
            token_bucket.spend(frames, now);
            sent += frames;
        }
    }
    (sent, woken)
}

// shows: allocation 117
#[test]
fn beyond_a_burst_frames_go_at_the_even_pace() {
    for (rate, per_second) in [(1_000, 1_064), (20_000, 20_064), (100_000, 100_064)] {
        let (sent, woken) = send(&mut token_bucket(rate), 1_000_000);
        assert!((per_second - 32..=per_second).contains(&sent), "{rate}: {sent}");
        assert!(woken <= sent / 16 + 1, "{rate}: woken {woken} times");
    }
}

#[test]
fn a_burst_goes_at_once_after_a_pause_and_does_not_grow() {
    let mut token_bucket = token_bucket(1_000);
    assert_eq!(token_bucket.allowance(at(0)), 64);
    token_bucket.spend(64, at(0));
    assert_eq!(token_bucket.allowance(at(0)), 0);
    assert_eq!(token_bucket.allowance(at(10_000)), 10);
    assert_eq!(token_bucket.allowance(at(3_600_000_000)), 64);
}

/// At the default pace a takeover of 1,000 IPv4 addresses is announced, in its first form, within 50 ms.
#[test]
fn a_thousand_frames_take_fifty_milliseconds_at_twenty_thousand_a_second() {
    assert!(send(&mut token_bucket(20_000), 50_000).0 >= 1_000);
}
