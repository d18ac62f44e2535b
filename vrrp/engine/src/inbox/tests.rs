use super::*;

#[test]
fn who_asks_when_nobody_reads_any_more_is_not_kept_waiting() {
    let inbox = Inbox::new().unwrap();
    std::thread::scope(|scope| {
        let requested_before = scope.spawn(|| inbox.status(|report| report.routers.len()));
        while inbox.commands.lock().unwrap().status_requests.is_empty() {
            std::thread::yield_now();
        }
        inbox.close();
        assert_eq!(requested_before.join().unwrap(), 0);
    });
    assert_eq!(inbox.status(|report| report.links.len()), 0);
}

/// As when the timer thread panics over it.
#[test]
fn a_question_that_is_dropped_has_an_empty_answer() {
    let inbox = Inbox::new().unwrap();
    std::thread::scope(|scope| {
        let requested = scope.spawn(|| inbox.status(|report| report.routers.len()));
        let taken = loop {
            let commands = inbox.take();
            if !commands.status_requests.is_empty() {
                break commands;
            }
            std::thread::yield_now();
        };
        drop(taken);
        assert_eq!(requested.join().unwrap(), 0);
    });
}
