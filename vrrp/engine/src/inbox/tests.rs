use super::*;

#[test]
fn who_asks_when_nobody_reads_any_more_is_not_kept_waiting() {
    let inbox = Inbox::new().unwrap();
    std::thread::scope(|scope| {
        let asked_before = scope.spawn(|| inbox.ask(|answer| answer.routers.len()));
        while inbox.letters.lock().unwrap().questions.is_empty() {
            std::thread::yield_now();
        }
        inbox.close();
        assert_eq!(asked_before.join().unwrap(), 0);
    });
    assert_eq!(inbox.ask(|answer| answer.links.len()), 0);
}

/// As when the timer thread panics over it.
#[test]
fn a_question_that_is_dropped_has_an_empty_answer() {
    let inbox = Inbox::new().unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| inbox.ask(|answer| answer.routers.len()));
        let taken = loop {
            let letters = inbox.take();
            if !letters.questions.is_empty() {
                break letters;
            }
            std::thread::yield_now();
        };
        drop(taken);
        assert_eq!(asked.join().unwrap(), 0);
    });
}
