use super::*;

const LIMIT: Duration = Duration::from_secs(35);

// shows: ccm-contract S-62
#[test]
fn only_a_leader_whose_lease_is_overdue_is_ill_s_62() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let lease_health = LeaseHealth::default();
    assert_eq!(lease_health.check(after(1000), LIMIT), Ok(()), "a standby");
    lease_health.renewed(start);
    assert_eq!(lease_health.check(after(35), LIMIT), Ok(()));
    let error = lease_health.check(after(36), LIMIT).expect_err("overdue");
    assert!(error.contains("not renewed for 36 s"), "{error}");
    lease_health.renewed(after(36));
    assert_eq!(lease_health.check(after(70), LIMIT), Ok(()), "renewed");
    lease_health.ended();
    assert_eq!(lease_health.check(after(1000), LIMIT), Ok(()), "it leads no longer");
}
