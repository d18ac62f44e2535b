use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nweb0";

fn options() -> CrowdOptions {
    CrowdOptions {
        clients: 40,
        least_thought: Duration::from_secs(4),
        most_thought: Duration::from_secs(10),
        seed: 7,
    }
}

fn targets() -> Vec<SocketAddr> {
    (200..206).map(|last| SocketAddr::from(([192, 0, 2, last], 80))).collect()
}

#[test]
fn half_of_the_clients_of_each_address_keep_their_connections() {
    let (hosts, targets) = (4, targets());
    let clients: Vec<Client> =
        (0..48).map(|number| Client::new(number, &targets, hosts, options())).collect();
    for target in targets {
        let keeps: Vec<bool> =
            clients.iter().filter(|client| client.target == target).map(|client| client.keeps).collect();
        assert_eq!(keeps.len(), 8, "{target}");
        assert_eq!(keeps.iter().filter(|keeps| **keeps).count(), 4, "{target}");
    }
}

#[test]
fn thoughts_are_between_the_least_and_the_most_and_follow_from_the_seed() {
    let thoughts = |number| {
        let mut client = Client::new(number, &targets(), 1, options());
        (0..100).map(|_| client.options.thought(&mut client.random)).collect::<Vec<_>>()
    };
    let range = options().least_thought..=options().most_thought;
    assert!(thoughts(0).iter().all(|thought| range.contains(thought)), "{:?}", thoughts(0));
    assert_eq!(thoughts(3), thoughts(3));
    assert_ne!(thoughts(3), thoughts(4));
}

/// A server that answers so many questions on each connection and then closes it; how many connections it has had.
async fn server(questions: usize) -> (SocketAddr, Rc<Cell<usize>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Rc::new(Cell::new(0));
    let counted = Rc::clone(&connections);
    tokio::task::spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.set(counted.get() + 1);
            for _ in 0..questions {
                let mut question = [0; 256];
                if stream.read(&mut question).await.unwrap() == 0 {
                    break;
                }
                stream.write_all(ANSWER).await.unwrap();
            }
        }
    });
    (address, connections)
}

#[tokio::test]
async fn a_kept_connection_is_asked_on_until_it_is_dead_and_then_another_is_opened() {
    let asked = async {
        let (target, connections) = server(2).await;
        let client = Client { target, ..Client::new(0, &targets(), 1, options()) };
        assert!(client.keeps);
        let mut kept = None;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (answered, course) = client.question(&mut kept).await;
            answered.unwrap();
            seen.push((course.broken, connections.get()));
        }
        assert_eq!(seen, [(false, 1), (false, 1), (true, 2), (false, 2)]);
    };
    tokio::task::LocalSet::new().run_until(asked).await;
}

#[tokio::test]
async fn who_keeps_no_connection_opens_one_for_each_question() {
    let asked = async {
        let (target, connections) = server(1).await;
        let client = Client { target, keeps: false, ..Client::new(0, &targets(), 1, options()) };
        let mut kept = None;
        for number in 1..=3 {
            let (answered, course) = client.question(&mut kept).await;
            answered.unwrap();
            assert_eq!((course.broken, connections.get(), kept.is_none()), (false, number, true));
        }
    };
    tokio::task::LocalSet::new().run_until(asked).await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_has_failed() {
    // Nobody listens on a port that was just closed.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let target = listener.local_addr().unwrap();
    drop(listener);
    let client = Client { target, ..Client::new(0, &targets(), 1, options()) };
    let (answered, course) = client.question(&mut None).await;
    assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert!(!course.broken);
}
