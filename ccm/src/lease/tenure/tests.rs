use super::*;

const LIMIT: Duration = Duration::from_secs(35);

#[test]
fn only_a_leader_whose_lease_is_overdue_is_ill_s_62() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let tenure = Tenure::default();
    assert_eq!(tenure.check(after(1000), LIMIT), Ok(()), "a standby");
    tenure.renewed(start);
    assert_eq!(tenure.check(after(35), LIMIT), Ok(()));
    let error = tenure.check(after(36), LIMIT).expect_err("overdue");
    assert!(error.contains("not renewed for 36 s"), "{error}");
    tenure.renewed(after(36));
    assert_eq!(tenure.check(after(70), LIMIT), Ok(()), "renewed");
    tenure.ended();
    assert_eq!(tenure.check(after(1000), LIMIT), Ok(()), "it leads no longer");
}
