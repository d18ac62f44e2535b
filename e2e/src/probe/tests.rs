use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_longest_gap_is_between_two_answers() {
    let mut outcome = Outcome::default();
    for (at, server) in [(100, "web-n1\n"), (101, "web-n1"), (141, "web-n2"), (142, "web-n2")] {
        outcome.answer(ms(at), server.as_bytes());
    }
    outcome.close_gap(ms(150));
    assert_eq!((outcome.longest_gap, outcome.gap_began), (ms(40), ms(101)));
    assert_eq!(outcome.answered, 4);
    assert_eq!(outcome.by_server, BTreeMap::from([("web-n1".into(), 2), ("web-n2".into(), 2)]));
    assert_eq!(outcome.last_server.as_deref(), Some("web-n2"));
}

#[test]
fn silence_until_the_end_is_a_gap_and_silence_before_the_first_answer_is_none() {
    let mut outcome = Outcome::default();
    outcome.close_gap(ms(50));
    assert_eq!(outcome.longest_gap, Duration::ZERO);
    outcome.answer(ms(90), b"web-n1");
    outcome.close_gap(ms(500));
    assert_eq!((outcome.longest_gap, outcome.gap_began), (ms(410), ms(90)));
}

#[test]
fn the_same_ports_of_a_client_can_be_asked_from_again_immediately() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = listener.local_addr().unwrap();
    // A port that nothing else uses.
    let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, from) = listener.accept().unwrap();
            let mut request = [0; 26];
            stream.read_exact(&mut request).unwrap();
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{}\n", from.port()).unwrap();
        }
    });
    for _ in 0..3 {
        let seen = ask_from(Some(port), target, PATIENCE).unwrap();
        assert_eq!(server_name(&seen), port.to_string());
    }
    server.join().unwrap();
}
