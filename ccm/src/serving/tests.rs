//! The whole endpoint: a TLS client, and an API server in memory.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::*;
use crate::testing::apiserver::ApiServer;

/// An endpoint that runs, and its API server.
struct Endpoint {
    api: ApiServer,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    folder: PathBuf,
    health: HealthChecks,
    token: CancellationToken,
    serving: JoinHandle<Result<(), ServingError>>,
}

fn pages() -> Pages {
    let made = || Page::new(http::StatusCode::OK, "text/html", "<p>made</p>");
    let page = move || {
        made().with_header(
            http::header::CONTENT_SECURITY_POLICY,
            http::HeaderValue::from_static("default-src 'none'"),
        )
    };
    Pages::default().with("/page", page)
}

/// What of a request differs.
#[derive(Default)]
struct With<'a> {
    token: Option<&'a str>,
    /// User name, colon and password, in base64.
    basic: Option<&'a str>,
    method: Option<&'a str>,
}

impl Endpoint {
    async fn start(name: &str, auth: AuthOptions, api: ApiServer) -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-endpoint-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let options = ServingOptions { tls: TlsSource::Folder(folder.clone()), auth, ..Default::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::on(listener, options, api.client()).unwrap().with_pages(pages());
        let address = server.local_addr().unwrap();
        let certificate = CertificateDer::from_pem_file(folder.join("cloud-controller-manager.crt")).unwrap();
        let (health, token) = (HealthChecks::new(), CancellationToken::new());
        let registry = Registry::new();
        prometheus::register_int_counter_with_registry!("things_total", "Things", registry).unwrap();
        let serving = server.serve(registry, health.clone(), token.clone());
        Self { api, address, certificate, folder, health, token, serving: tokio::spawn(serving) }
    }

    async fn try_get(&self, path: &str, with: &With<'_>) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let bearer = with.token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let authorization = bearer.or_else(|| Some(format!("Authorization: Basic {}\r\n", with.basic?)));
        let request = format!(
            "{} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}\r\n",
            with.method.unwrap_or("GET"),
            authorization.unwrap_or_default()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// Status code and body.
    async fn get(&self, path: &str, with: With<'_>) -> (u16, String) {
        let answer = self.try_get(path, &with).await.unwrap();
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (code, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    async fn code(&self, path: &str, with: With<'_>) -> u16 {
        self.get(path, with).await.0
    }

    /// How often the API server was asked.
    fn asked(&self, plural: &str) -> usize {
        self.api.writes().iter().filter(|write| write.path == plural).count()
    }

    async fn stop(self) {
        self.token.cancel();
        self.serving.await.unwrap().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn token(token: &str) -> With<'_> {
    With { token: Some(token), ..With::default() }
}

// shows: ccm-contract H-01
#[tokio::test]
async fn probes_are_answered_for_anybody_and_the_rest_only_for_those_who_may() {
    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &["system:authenticated"]);
    api.add_token("stranger", "jane", &["system:authenticated"]);
    api.add_token("admin", "root", &["system:masters"]);
    api.permit("prometheus", "get", "/metrics");
    let end = Endpoint::start("who", AuthOptions::default(), api).await;

    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(end.get(path, With::default()).await, (200, "ok".to_owned()), "{path}");
    }
    let head = With { method: Some("HEAD"), ..With::default() };
    assert_eq!(end.get("/healthz", head).await, (200, String::new()));
    let answer = end.try_get("/metrics", &With::default()).await.unwrap().to_ascii_lowercase();
    assert!(answer.contains("www-authenticate: bearer\r\n"), "{answer}");
    let (code, text) = end.get("/metrics", With::default()).await;
    assert!(code == 401 && text.contains("bearer token"), "{code} {text}");
    let (code, text) = end.get("/metrics", token("nonsense")).await;
    assert!(code == 401 && text.contains("none of this cluster"), "{code} {text}");
    let (code, text) = end.get("/metrics", token("stranger")).await;
    assert!(code == 403 && text.contains(r#""jane" may not get /metrics"#), "{code} {text}");
    let (code, text) = end.get("/metrics", token("scraper")).await;
    assert!(code == 200 && text.contains("things_total 0"), "{code} {text}");
    assert_eq!(end.code("/metrics/slis", token("scraper")).await, 403);
    let (code, text) = end.get("/metrics/slis", token("admin")).await;
    assert!(code == 200 && text.contains(r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#), "{text}");
    // Refused before it is said whether there is anything, and what can be done with it.
    assert_eq!(end.code("/configz", With::default()).await, 401);
    assert_eq!(end.code("/configz", token("admin")).await, 404);
    assert_eq!(end.code("/healthz/ping", With::default()).await, 401);
    assert_eq!(end.code("/healthz/ping", token("admin")).await, 200);
    let post = |token| With { method: Some("POST"), token, ..With::default() };
    assert_eq!(end.code("/metrics", post(Some("scraper"))).await, 403);
    assert_eq!(end.code("/metrics", post(Some("admin"))).await, 405);
    assert_eq!(end.code("/healthz", post(None)).await, 405);
    end.stop().await;
}

// shows: threats T-21
#[tokio::test]
async fn pages_of_the_provider_are_for_those_who_may_get_them_also_by_password() {
    let api = ApiServer::default();
    api.add_token("viewer", "jane", &[]);
    api.add_token("stranger", "joe", &[]);
    api.add_token("admin", "root", &["system:masters"]);
    api.permit("jane", "get", "/page");
    let end = Endpoint::start("pages", AuthOptions::default(), api).await;
    let answer = end.try_get("/page", &With::default()).await.unwrap().to_ascii_lowercase();
    let asks = "www-authenticate: basic realm=\"the password is a token of this cluster\"";
    assert!(answer.starts_with("http/1.1 401") && answer.contains(asks), "{answer}");
    assert_eq!(end.code("/page", token("nonsense")).await, 401);
    assert_eq!(end.code("/page", token("stranger")).await, 403);
    assert_eq!(end.get("/page", token("viewer")).await, (200, "<p>made</p>".to_owned()));
    // any:viewer
    let password = || With { basic: Some("YW55OnZpZXdlcg=="), ..With::default() };
    assert_eq!(end.code("/page", password()).await, 200);
    let answer = end.try_get("/page", &password()).await.unwrap();
    assert!(answer.contains("content-security-policy: default-src 'none'\r\n"), "{answer}");
    assert_eq!(answer.matches("content-type:").count(), 1, "{answer}");
    assert_eq!(end.code("/metrics", password()).await, 401, "elsewhere a password is nothing");
    assert_eq!(end.code("/page/", token("admin")).await, 404);
    let post = With { method: Some("POST"), ..token("admin") };
    assert_eq!(end.code("/page", post).await, 405);
    end.stop().await;
}

#[tokio::test]
async fn reasons_are_withheld_from_strangers() {
    let api = ApiServer::default();
    api.add_token("admin", "root", &["system:masters"]);
    let end = Endpoint::start("reasons", AuthOptions::default(), api).await;
    end.health.add("lease", Scope::HEALTHZ, || Err("it is old".to_owned()));
    let (code, text) = end.get("/healthz", token("admin")).await;
    assert!(code == 500 && text.contains("[-]lease failed: reason withheld"), "{text}");
    let (code, text) = end.get("/healthz/lease", token("admin")).await;
    assert!(code == 500 && text.contains("it is old"), "{text}");
    assert_eq!(end.code("/healthz?exclude=lease", With::default()).await, 200);
    end.stop().await;
}

// shows: ccm-contract H-02
#[tokio::test]
async fn answers_are_believed_for_a_while() {
    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &[]);
    api.permit("prometheus", "get", "/metrics");
    let end = Endpoint::start("cached", AuthOptions::default(), api).await;
    for _ in 0..3 {
        assert_eq!(end.code("/metrics", token("scraper")).await, 200);
        assert_eq!(end.code("/metrics", token("wrong")).await, 401);
    }
    assert_eq!((end.asked("tokenreviews"), end.asked("subjectaccessreviews")), (2, 1));
    end.stop().await;

    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &[]);
    let auth =
        AuthOptions { token_ttl: Duration::ZERO, unauthorized_ttl: Duration::ZERO, ..AuthOptions::default() };
    let end = Endpoint::start("not-cached", auth, api).await;
    assert_eq!(end.code("/metrics", token("scraper")).await, 403);
    end.api.permit("prometheus", "get", "/metrics");
    assert_eq!(end.code("/metrics", token("scraper")).await, 200);
    end.api.remove_token("scraper");
    assert_eq!(end.code("/metrics", token("scraper")).await, 401);
    end.stop().await;
}

// shows: ccm-contract H-02
#[tokio::test]
async fn without_an_answer_of_the_api_server_nobody_is_let_in() {
    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &[]);
    api.permit("prometheus", "get", "/metrics");
    let end = Endpoint::start("away", AuthOptions::default(), api).await;
    for code in [403, 500, 429] {
        end.api.fail("create", "tokenreviews", code);
        let (answered, text) = end.get("/metrics", token("scraper")).await;
        assert!(answered == 503 && text.contains("could not be asked whose the token is"), "{text}");
    }
    end.api.fail("create", "subjectaccessreviews", 500);
    assert_eq!(end.code("/metrics", token("scraper")).await, 503);
    assert_eq!(end.code("/metrics", token("scraper")).await, 200);
    end.api.set_silent(true);
    assert_eq!(end.code("/healthz", With::default()).await, 200);
    assert_eq!(end.code("/metrics", token("scraper")).await, 200, "believed for a while");
    end.stop().await;
}

/// What a TLS client says first.
fn hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut said = Vec::new();
    rustls::ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut said).unwrap();
    said
}

// shows: ccm-contract H-03
#[tokio::test]
async fn garbage_and_silence_do_not_hold_up_others() {
    let end = Endpoint::start("garbage", AuthOptions::default(), ApiServer::default()).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(end.address).await.unwrap());
    }
    for garbage in [&b"GET /healthz HTTP/1.1\r\n\r\n"[..], &[0; 4096], b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = TcpStream::connect(end.address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        // Closed, whether or not an alert comes before.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    // Half a greeting, a whole one and silence, and one byte after the other.
    let hello = hello();
    for (said, step) in [(&hello[..hello.len() / 2], hello.len()), (&hello[..], hello.len()), (&hello[..], 1)]
    {
        let mut stream = TcpStream::connect(end.address).await.unwrap();
        for part in said.chunks(step) {
            stream.write_all(part).await.unwrap();
        }
        silent.push(stream);
    }
    let long = "x".repeat(100_000);
    let _ = end.try_get(&format!("/{long}"), &With::default()).await;
    let (code, _) = end.get("/metrics", token(&"x".repeat(20_000))).await;
    assert_eq!((code, end.asked("tokenreviews")), (401, 0));
    assert_eq!(end.code("/healthz", With::default()).await, 200);
    // The silent ones are let go.
    for mut stream in silent {
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "still open");
    }
    end.stop().await;
}

#[tokio::test]
async fn versions_of_tls_older_than_the_oldest_allowed_are_refused() {
    use rustls::version::{TLS12, TLS13};
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let table = [
        (TlsVersion::Tls12, &TLS12, true),
        (TlsVersion::Tls12, &TLS13, true),
        (TlsVersion::Tls13, &TLS12, false),
        (TlsVersion::Tls13, &TLS13, true),
    ];
    for (min_version, spoken, expected) in table {
        let server =
            tls::config(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), min_version).unwrap();
        let client = ClientConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[spoken])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let name = ServerName::try_from("localhost").unwrap();
        let (asked, answered) = tokio::join!(
            TlsConnector::from(Arc::new(client)).connect(name, near),
            tokio_rustls::TlsAcceptor::from(server).accept(far)
        );
        assert_eq!((asked.is_ok(), answered.is_ok()), (expected, expected), "{min_version:?} {spoken:?}");
    }
}

#[tokio::test]
async fn port_0_serves_nothing_and_a_port_in_use_is_named() {
    let client = ApiServer::default().client();
    let off = ServingOptions { secure_port: 0, ..ServingOptions::default() };
    let server = Server::bind(off, client.clone()).await.unwrap();
    assert_eq!(server.local_addr(), None);
    let token = CancellationToken::new();
    token.cancel();
    server.serve(Registry::new(), HealthChecks::new(), token).await.unwrap();

    let busy = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let _held = TcpListener::bind(busy).await.unwrap();
    let options =
        ServingOptions { bind_address: busy.ip(), secure_port: busy.port(), ..ServingOptions::default() };
    let error = Server::bind(options, client).await.unwrap_err().to_string();
    assert!(error.contains(&busy.to_string()) && error.contains("choose another port"), "{error}");
}

#[tokio::test]
async fn on_a_unix_socket_its_owner_is_answered_and_a_socket_that_was_left_is_replaced() {
    let folder = std::env::temp_dir().join(format!("windlass-socket-{}", std::process::id()));
    let path = folder.join("new").join("agent.sock");
    drop(SocketServer::bind(&path).unwrap());
    let server = SocketServer::bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let error = SocketServer::bind(&path).unwrap_err().to_string();
    assert!(error.contains("another process answers there") && error.contains("agent.sock"), "{error}");
    let (health, token) = (HealthChecks::new(), CancellationToken::new());
    health.add("state", Scope::READY, || Err("not read yet".to_owned()));
    let serving = tokio::spawn(server.serve(Registry::new(), health, token.clone()));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 500") && answer.contains("[-]state failed: not read yet"),
        "{answer}"
    );
    token.cancel();
    serving.await.unwrap();
    assert!(!path.exists());
    std::fs::write(&path, "somebody's file").unwrap();
    let error = SocketServer::bind(&path).unwrap_err().to_string();
    assert!(error.contains("something else") && error.contains("agent.sock"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's file");
    std::fs::remove_dir_all(folder).unwrap();
}
