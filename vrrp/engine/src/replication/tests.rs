use super::*;

#[test]
fn where_nobody_replicates_the_thread_sleeps_until_something_is_wanted() {
    let mut replication = Replication::new(ConnectionReplication::default());
    for second in 0..3 {
        let now = Time::default() + Duration::from_secs(second);
        replication.take_over(&BTreeSet::new(), now);
        assert_eq!(replication.round(Vec::new(), now), None);
    }
}
