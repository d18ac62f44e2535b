//! `windlass convert metallb`: pools to standard output, words to standard error, and the exit code.

use std::fs::File;

use crate::support::{Folder, windlass};

const POOL: &str = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: first}\n\
    spec: {addresses: [192.0.2.0/28]}\n";

/// Exit code, standard output and standard error.
fn convert(input: &[u8]) -> (Option<i32>, String, String) {
    let folder = Folder::new();
    let path = folder.path().join("input.yaml");
    std::fs::write(&path, input).unwrap();
    let output = windlass().args(["convert", "metallb"]).stdin(File::open(path).unwrap()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn exit_code_0_says_that_nothing_was_lost_and_3_that_a_setting_was() {
    let (code, stdout, stderr) = convert(POOL.as_bytes());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("kind: VirtualIPPool\n") && stdout.contains("192.0.2.0/28"), "{stdout}");
    let secret = format!("{POOL}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n");
    let (code, _, stderr) = convert(secret.as_bytes());
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("windlass: note: Secret s: "), "{stderr}");
    let peer = format!("{POOL}---\napiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {{name: p}}\n");
    let (code, with_peer, stderr) = convert(peer.as_bytes());
    assert_eq!((code, with_peer), (Some(3), stdout));
    assert!(stderr.starts_with("windlass: warning: BGPPeer p: "), "{stderr}");
    assert!(
        stderr.lines().last().is_some_and(|last| last.starts_with("windlass: a setting was not converted")),
        "{stderr}"
    );
}

#[test]
fn what_is_left_out_or_no_pool_is_failure_with_one_sentence() {
    let broken = format!("{POOL}---\n: : [\n");
    let rows: [(&[u8], bool, &str); 5] = [
        (broken.as_bytes(), true, "windlass: not everything was converted"),
        (b": : [", false, "windlass: nothing was converted"),
        (b"a: b\n", false, "windlass: the input has nothing to convert: give IPAddressPools of MetalLB"),
        (b"", false, "windlass: the input has nothing to convert: give IPAddressPools of MetalLB"),
        (b"\xff\xfe", false, "windlass: standard input is not text in UTF-8: save it as such"),
    ];
    for (input, some, sentence) in rows {
        let (code, stdout, stderr) = convert(input);
        assert_eq!((code, stdout.contains("kind: VirtualIPPool")), (Some(1), some), "{stderr}");
        assert!(stderr.lines().last().is_some_and(|last| last.starts_with(sentence)), "{stderr}");
    }
}
