use std::time::Duration;

use windlass_vrrp::Vrid;

use super::*;
use crate::config::RouterConfig;

fn key() -> RouterKey {
    RouterConfig::new("eth0", Vrid::new(1).unwrap(), "192.0.2.1".parse().unwrap()).key()
}

fn at(seconds: u64) -> Time {
    Time::default() + Duration::from_secs(seconds)
}

#[test]
fn adverts_refused_are_told_at_the_third_in_a_row_and_once_a_minute() {
    let mut fault_reports = FaultReports::new();
    let no = io::Error::from_raw_os_error(libc::EPERM);
    let reported: Vec<bool> = [Some(&no), Some(&no), None, Some(&no), Some(&no), Some(&no), Some(&no)]
        .map(|refusal| fault_reports.sent(&key(), refusal, at(1)).is_some())
        .into();
    assert_eq!(reported, [false, false, false, false, false, true, false]);
    assert_eq!(fault_reports.sent(&key(), Some(&no), at(60)), None);
    let Some(Event::AdvertsRefused { error, .. }) = fault_reports.sent(&key(), Some(&no), at(61)) else {
        panic!()
    };
    assert!(
        error.contains("VRID 1 for IPv4 on eth0") && error.contains("Operation not permitted"),
        "{error}"
    );
}

#[test]
fn an_own_source_that_is_in_use_is_told_once_a_minute() {
    let mut fault_reports = FaultReports::new();
    let reported = [1, 2, 60, 61].map(|second| fault_reports.own_source(&key(), at(second)).is_some());
    assert_eq!(reported, [true, false, false, true]);
}

#[test]
fn a_peer_that_goes_on_as_active_is_told_after_a_while_and_once_a_minute() {
    let interval = Interval::from_millis(1000).unwrap();
    let [one, other] = [2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
    let told = |heard: &[(u64, IpAddr)]| {
        let mut fault_reports = FaultReports::new();
        let mut told = Vec::new();
        for (second, source) in heard {
            if let Some(event) = fault_reports.contended(&key(), *source, interval, at(*second)) {
                assert_eq!(event, Event::SecondActive { key: key(), source: *source });
                told.push(*second);
            }
        }
        told
    };
    let each_second = |seconds: std::ops::Range<u64>| seconds.map(|second| (second, one)).collect::<Vec<_>>();
    assert_eq!(told(&each_second(1..100)), [6, 66]);
    assert_eq!(told(&each_second(1..6)), [], "a hand-over");
    assert_eq!(told(&[each_second(1..5), each_second(9..14)].concat()), [], "it fell silent between");
    let in_turn =
        (1..20).map(|second| (second, if second % 2 == 0 { one } else { other })).collect::<Vec<_>>();
    assert_eq!(told(&in_turn), [], "two that fall silent in turn are not one that does not");
}
