use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::LocalSet,
};

use super::*;

const PAUSE: Duration = Duration::from_millis(10);

/// A server on whose connections so many questions are answered, each after this time, and no more.
async fn server(questions: usize, after: Duration) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                for _ in 0..questions {
                    let mut question = [0; 256];
                    if stream.read(&mut question).await.unwrap_or(0) == 0 {
                        break;
                    }
                    sleep(after).await;
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nweb0").await;
                }
            });
        }
    });
    address
}

/// What becomes of connections to these servers, watched from the beginning, once all are open and this many more questions asked.
async fn seen(targets: Vec<SocketAddr>, connections: usize) -> Vec<Vec<KeptConnection>> {
    let (shared, stop) = (Arc::new(Shared::default()), Stop::default());
    shared.watched.store(true, Ordering::Relaxed);
    let wanted = targets.len() * connections;
    let options = KeptOptions { connections, pause: PAUSE };
    let running = tokio::task::spawn_local(run(targets, options, Arc::clone(&shared), stop.clone()));
    while shared.opened.load(Ordering::Relaxed) < wanted {
        sleep(PAUSE).await;
    }
    stop.request();
    running.await.unwrap().unwrap()
}

#[tokio::test]
async fn each_target_has_its_connections_and_half_of_them_are_busy() {
    let asked = async {
        let patient = Duration::from_millis(20);
        let targets = vec![server(usize::MAX, Duration::ZERO).await, server(usize::MAX, patient).await];
        let seen = seen(targets, 4).await;
        let busy: Vec<Vec<bool>> =
            seen.iter().map(|of_target| of_target.iter().map(|one| one.busy).collect()).collect();
        assert_eq!(busy, vec![vec![true, false, true, false]; 2]);
        assert!(seen.iter().flatten().all(|one| one.stall.is_ok()), "{seen:?}");
        assert!(
            seen[1].iter().all(|one| one.stall.as_ref().is_ok_and(|stall| *stall >= patient)),
            "{seen:?}"
        );
    };
    LocalSet::new().run_until(asked).await;
}

#[tokio::test]
async fn a_connection_that_its_server_ends_is_not_kept_idle_or_not() {
    let asked = async {
        let seen = seen(vec![server(1, Duration::ZERO).await], 2).await;
        assert!(seen[0].iter().all(|one| one.stall.is_err()), "{seen:?}");
    };
    LocalSet::new().run_until(asked).await;
}
