use super::*;

#[test]
fn who_asks_when_nobody_reads_any_more_is_not_kept_waiting() {
    let inbox = Inbox::new().unwrap();
    let asked_before = inbox.ask();
    inbox.close();
    assert!(asked_before.recv().is_err());
    assert!(inbox.ask().recv().is_err());
}
