use hyper::body::Bytes;

use super::*;

fn of(service: &str) -> Question {
    Question::Grpc { service: service.to_owned() }
}

#[tokio::test]
async fn a_server_is_asked_for_its_health_and_has_to_say_serving() {
    for (message, status, expected) in [
        (&[0, 0, 0, 0, 2, 8, 1][..], "0", Ok(())),
        (&[0, 0, 0, 0, 2, 8, 2], "0", Err("it answers NOT_SERVING")),
        (&[0, 0, 0, 0, 2, 8, 3], "0", Err("it does not know service \"a.B\"")),
        (&[], "5", Err("it does not know service \"a.B\"")),
        (&[], "12", Err("it does not implement grpc.health.v1.Health")),
        (&[], "0", Err("its answer is not a HealthCheckResponse")),
    ] {
        let (address, questions) = health(message, status).await;
        let found = ask(of("a.B"), address, AMPLE).await;
        assert_eq!(found, expected.map_err(str::to_owned), "{message:?} {status}");
        let questions = questions.lock().unwrap().clone();
        let asked = (
            "/grpc.health.v1.Health/Check".to_owned(),
            Bytes::from_static(&[0, 0, 0, 0, 5, 10, 3, b'a', b'.', b'B']),
        );
        assert_eq!(questions, [asked]);
    }
    let (address, questions) = health(&[0, 0, 0, 0, 2, 8, 1], "0").await;
    assert_eq!(ask(of(""), address, AMPLE).await, Ok(()));
    assert_eq!(questions.lock().unwrap()[0].1, Bytes::from_static(&[0; 5]));
}

#[tokio::test]
async fn who_speaks_no_grpc_fails() {
    let (pages, _) = pages(OK).await;
    let refused = ask(of(""), pages, SHORT).await.unwrap_err();
    assert!(refused.starts_with("no answer"), "{refused}");
    let silent =
        server(|mut stream: TcpStream| async move { drop(stream.read_to_end(&mut Vec::new()).await) }).await;
    assert_eq!(ask(of(""), silent, SHORT).await, Err("no answer within 100ms".to_owned()));
    let gone = server(async |stream| drop(stream)).await;
    let refused = ask(of(""), gone, AMPLE).await.unwrap_err();
    assert!(refused.starts_with("no answer: "), "{refused}");
    let refused = ask(of(""), closed().await, AMPLE).await;
    assert_eq!(refused, Err("no connection: Connection refused (os error 111)".to_owned()));
}
