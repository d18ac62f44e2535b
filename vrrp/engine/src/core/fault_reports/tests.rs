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
