//! The whole controller against an API server in memory: what it leaves behind when it dies, when there are two of it, and
//! when the API server is slow and fails.

mod contest;
mod crash;
mod edits;
mod external;
mod lives;
mod race;
mod restarts;
mod rig;
mod scenarios;

#[test]
fn two_candidates_on_one_host_have_different_identities() {
    let [one, other] = [(); 2].map(|()| super::identity().expect("an identity"));
    assert_ne!(one, other);
    let host = nix::unistd::gethostname().expect("a host name");
    assert!(one.starts_with(&format!("{}_", host.to_string_lossy())), "{one}");
}
