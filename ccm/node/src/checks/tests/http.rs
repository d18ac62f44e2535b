use super::*;

#[tokio::test]
async fn the_status_of_a_page_counts() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/ok\r\ncontent-length: 0\r\n\r\n";
    let failing = "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n[+]ping ok\n[-]etcd failed: reason withheld\n";
    for (answer, expect, expected) in [
        (OK, &[200][..], Ok(())),
        (OK, &[204], Err("it answers 200 OK: ok")),
        (UNAVAILABLE, &[200], Err("it answers 503 Service Unavailable: not yet")),
        (UNAVAILABLE, &[200, 503], Ok(())),
        (Reply::Say(redirect), &[200], Err("it answers 302 Found")),
        (
            Reply::Say(failing),
            &[200],
            Err("it answers 500 Internal Server Error: [-]etcd failed: reason withheld"),
        ),
        (Reply::Say(""), &[200], Err("no answer: connection closed before message completed")),
        (Reply::Say("SSH-2.0-server\r\n"), &[200], Err("no answer: invalid HTTP version parsed")),
        // Neither a body that never comes nor one that never ends is waited for.
        (Reply::Stay("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"), &[200], Ok(())),
        (
            Reply::Stay("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n"),
            &[200],
            Err("it answers 500 Internal Server Error"),
        ),
        (
            Reply::Flood("HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n", "more\n"),
            &[200],
            Err("it answers 500 Internal Server Error"),
        ),
        (
            Reply::Flood("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
            &[200],
            Err("no answer: message head is too large"),
        ),
    ] {
        let (address, heads) = pages(answer).await;
        let found = ask(page(expect, None), address, AMPLE).await;
        assert_eq!(found, expected.map_err(str::to_owned), "{answer:?} {expect:?}");
        let asked = heads.lock().unwrap().len();
        assert!(asked <= 1, "{answer:?}: asked {asked} times");
    }
}

#[tokio::test]
async fn who_does_not_answer_in_time_fails() {
    for answer in [
        Reply::Stay(""),
        Reply::Stay("HTTP/1.1 200 OK\r\n"),
        Reply::Drip("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        Reply::Drip("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let (address, _) = pages(answer).await;
        let found = ask(page(&[200], None), address, SHORT).await;
        assert_eq!(found, Err("no answer within 100ms".to_owned()), "{answer:?}");
    }
    let refused = ask(page(&[200], None), closed().await, AMPLE).await;
    assert_eq!(refused, Err("no connection: Connection refused (os error 111)".to_owned()));
}

#[tokio::test]
async fn a_request_names_the_page_and_the_host() {
    for (host, expected) in [(None, None), (Some("kubernetes:6443"), Some("kubernetes:6443"))] {
        let (address, heads) = pages(OK).await;
        let question = HttpQuestion {
            path: "/readyz?verbose".to_owned(),
            expect: vec![200..=200],
            host: host.map(str::to_owned),
            tls: None,
            reads_reason: true,
        };
        ask(Question::Http(question), address, AMPLE).await.unwrap();
        let heads = heads.lock().unwrap().clone();
        let [head] = &heads[..] else { panic!("{heads:?}") };
        let host = expected.map_or_else(|| address.to_string(), str::to_owned);
        assert!(head.starts_with("GET /readyz?verbose HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("host: {host}\r\n")) && head.contains("connection: close\r\n"),
            "{head}"
        );
    }
}
