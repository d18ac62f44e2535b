use super::node_checks::run;
use super::*;
use crate::checks::tests::servers::{
    OK, Reply, UNAVAILABLE, authority, health, pages, reply, server, tls_pages,
};

fn https(port: u16) -> NodeCheck {
    let action = json!({ "port": port, "scheme": "HTTPS", "path": "/readyz" });
    serde_json::from_value(json!({ "httpGet": action })).expect("a check")
}

#[tokio::test]
async fn a_page_by_https_counts_by_its_status_whatever_the_certificate() {
    let redirect = Reply::Say("HTTP/1.1 302 Found\r\nlocation: https://192.0.2.1/\r\n\r\n");
    for (expired, answer, expected) in [
        (false, OK, None),
        (true, OK, None),
        (false, redirect, None),
        (false, UNAVAILABLE, Some("it answers 503 Service Unavailable at ")),
    ] {
        let (address, _) = tls_pages(&authority("unknown"), &["elsewhere"], expired, answer).await;
        let url = format!("https://{address}/readyz");
        let expected = expected.map_or(Finding::Passed, |said| Finding::Failed(format!("{said}{url}")));
        assert_eq!(run(&https(address.port())).await, expected, "{expired} {answer:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_fails_and_one_that_closes_is_silent() {
    let plain = server(async |mut stream| {
        drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
        drop(reply(stream, OK).await);
    });
    let plain = plain.await;
    let found = run(&https(plain.port())).await;
    let expected = format!("no TLS at https://{plain}/readyz: ");
    assert!(matches!(&found, Finding::Failed(why) if why.starts_with(&expected)), "{found:?}");
    let closed = server(async |stream| drop(stream)).await;
    let found = run(&https(closed.port())).await;
    assert!(matches!(&found, Finding::Silent(why) if why.contains("https://127.0.0.1")), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_before_tls_is_silent_after_the_time_of_the_check() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let check = NodeCheck { timeout_seconds: 7, ..https(address.port()) };
    let said = format!("no answer at https://{address}/readyz within 7s");
    assert_eq!(run(&check).await, Finding::Silent(said));
}

#[tokio::test]
async fn a_server_of_grpc_has_to_say_that_it_serves() {
    for (message, status, service, expected) in [
        (&[0, 0, 0, 0, 2, 8, 1][..], "0", "", Ok(())),
        (&[0, 0, 0, 0, 2, 8, 1], "0", "a.B", Ok(())),
        (&[0, 0, 0, 0, 2, 8, 2], "0", "a.B", Err("it answers NOT_SERVING at grpc://ADDRESS/a.B")),
        (&[], "5", "a.B", Err("it does not know service \"a.B\" at grpc://ADDRESS/a.B")),
        (&[], "12", "", Err("it does not implement grpc.health.v1.Health at grpc://ADDRESS")),
    ] {
        let (address, questions) = health(message, status).await;
        let action = json!({ "host": "127.0.0.1", "port": address.port(), "service": service });
        let check = serde_json::from_value(json!({ "grpc": action })).expect("a check");
        let expected = match expected {
            Ok(()) => Finding::Passed,
            Err(said) => Finding::Failed(said.replace("ADDRESS", &address.to_string())),
        };
        assert_eq!(run(&check).await, expected, "{message:?} {status} {service}");
        assert_eq!(questions.lock().expect("questions").len(), 1);
    }
    let (page, _) = pages(OK).await;
    let check = serde_json::from_value(json!({ "grpc": { "port": page.port() } })).expect("a check");
    let found = run(&check).await;
    assert!(matches!(&found, Finding::Silent(why) if why.starts_with("no answer at grpc://")), "{found:?}");
}
