use super::*;

#[test]
fn a_state_without_an_identity_counts_as_of_this_cluster_and_one_of_another_is_found() {
    let folder = std::env::temp_dir().join(format!("windlass-cluster-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = ClusterFile::of(&folder);
    assert_eq!(file.origin("a"), Origin::Same, "as of an earlier version");
    file.store("a").unwrap();
    assert_eq!(file.origin("a"), Origin::Same);
    assert_eq!(file.origin("b"), Origin::Other);
    assert_eq!(file.origin("b"), Origin::Other, "until it is written anew");
    file.store("b").unwrap();
    assert_eq!(ClusterFile::of(&folder).origin("b"), Origin::Same);
    fs::write(folder.join(FILE), "\n").unwrap();
    assert_eq!(file.origin("b"), Origin::Same, "an empty file, as after a crash");
    fs::remove_dir_all(&folder).unwrap();
}
