use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::*;

fn by(trust: Trust) -> Question {
    page(&[200], Some(Tls { server_name: None, trust }))
}

fn for_name(trust: Trust, name: &'static str) -> Question {
    page(&[200], Some(Tls { server_name: Some(name.try_into().unwrap()), trust }))
}

fn file(path: &Path, authority: &Authority) -> Trust {
    std::fs::write(path, authority.pem()).unwrap();
    Trust::Authority(path.to_owned())
}

#[tokio::test]
async fn a_certificate_of_the_authority_and_for_the_name_is_believed() {
    let folder = Folder::new();
    let [own, other] = ["own.crt", "other.crt"].map(|name| folder.0.join(name));
    let namesake = folder.0.join("namesake.crt");
    let ca = authority("kubernetes");
    let (own, other) = (file(&own, &ca), file(&other, &authority("another")));
    let namesake = file(&namesake, &authority("kubernetes"));
    let (address, _) = tls_pages(&ca, &["127.0.0.1", "kubernetes"], false, OK).await;
    assert_eq!(ask(by(own.clone()), address, AMPLE).await, Ok(()));
    assert_eq!(ask(for_name(own.clone(), "kubernetes"), address, AMPLE).await, Ok(()));
    let refused = ask(by(other), address, AMPLE).await.unwrap_err();
    assert_eq!(
        refused,
        "no TLS: invalid peer certificate: UnknownIssuer; the authority in caFile did not sign it"
    );
    let refused = ask(by(namesake), address, AMPLE).await.unwrap_err();
    assert!(refused.ends_with("; the authority in caFile did not sign it"), "{refused}");
    let refused = ask(for_name(own.clone(), "example"), address, AMPLE).await.unwrap_err();
    assert!(
        refused.contains("not valid for name")
            && refused.ends_with("; give a serverName (--check-server-name) that the certificate contains"),
        "{refused}"
    );
    let (expired, _) = tls_pages(&ca, &["127.0.0.1"], true, OK).await;
    let refused = ask(by(own.clone()), expired, AMPLE).await.unwrap_err();
    assert!(refused.contains("expired"), "{refused}");
    let (failing, _) = tls_pages(&ca, &["127.0.0.1"], false, UNAVAILABLE).await;
    let refused = ask(by(own), failing, AMPLE).await;
    assert_eq!(refused, Err("it answers 503 Service Unavailable: not yet".to_owned()));
}

#[tokio::test]
async fn a_certificate_is_believed_by_its_hash_whatever_else_it_says() {
    let (address, certificate) = tls_pages(&authority("authority"), &["elsewhere"], true, OK).await;
    let hash: [u8; 32] = Sha256::digest(&certificate).into();
    assert_eq!(ask(by(Trust::Certificate(hash)), address, AMPLE).await, Ok(()));
    let refused = ask(by(Trust::Certificate([0; 32])), address, AMPLE).await.unwrap_err();
    let digits = hash.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    assert!(refused.ends_with(&format!("its SHA-256 is {digits}")), "{refused}");
    assert_eq!(ask(by(Trust::Any), address, AMPLE).await, Ok(()), "as a kubelet's probe does");
}

#[tokio::test]
async fn who_speaks_no_tls_fails() {
    let (plain, _) = pages(OK).await;
    let silent =
        server(|mut stream: TcpStream| async move { drop(stream.read_to_end(&mut Vec::new()).await) }).await;
    assert_eq!(ask(by(Trust::Any), silent, SHORT).await, Err("no TLS handshake within 100ms".to_owned()));
    let said = server(|stream: TcpStream| async move {
        let (_, mut write) = stream.into_split();
        drop(write.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
    });
    let refused = ask(by(Trust::Any), said.await, AMPLE).await.unwrap_err();
    assert!(refused.starts_with("no TLS: "), "{refused}");
    let refused =
        ask(page(&[200], None), tls_pages(&authority("authority"), &["a"], false, OK).await.0, AMPLE).await;
    assert!(refused.unwrap_err().starts_with("no answer: "), "plain HTTP to a server of HTTPS");
    assert_eq!(ask(page(&[200], None), plain, AMPLE).await, Ok(()));
}

#[tokio::test]
async fn a_file_of_certificates_is_read_again() {
    let folder = Folder::new();
    let path = folder.0.join("ca.crt");
    let (ca, other) = (authority("one"), authority("other"));
    let (address, _) = tls_pages(&ca, &["127.0.0.1"], false, OK).await;
    let (new_address, _) = tls_pages(&other, &["127.0.0.1"], false, OK).await;
    let mut probe = Probe::new(by(Trust::Authority(path.clone())));
    // Asked again and again until that is the answer.
    let mut until = async |address: SocketAddr, is_it: fn(&Result<(), String>) -> bool| {
        let asking = async {
            loop {
                let answer = probe.ask(&address.into(), Within::from_now(AMPLE)).await;
                let answer = answer.map_err(|failure| failure.to_string());
                if is_it(&answer) {
                    break answer;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AMPLE, asking).await.unwrap()
    };
    let missing = until(address, Result::is_err).await.unwrap_err();
    let expected = format!(
        "caFile: cannot read {}: No such file or directory (os error 2); mount or correct it",
        path.display()
    );
    assert_eq!(missing, expected);
    std::fs::write(&path, "no certificate").unwrap();
    let broken =
        until(address, |answer| answer.as_ref().is_err_and(|error| error.contains("has no certificate")))
            .await;
    let expected =
        format!("caFile: {} has no certificate; give the authority's certificates in PEM", path.display());
    assert_eq!(broken, Err(expected));
    std::fs::write(&path, ca.pem()).unwrap();
    until(address, Result::is_ok).await.unwrap();
    std::fs::write(&path, format!("{}{}", ca.pem(), other.pem())).unwrap();
    until(new_address, Result::is_ok).await.unwrap();
    std::fs::write(&path, other.pem()).unwrap();
    until(address, Result::is_err).await.unwrap_err();
    until(new_address, Result::is_ok).await.unwrap();
}

#[tokio::test]
async fn a_file_of_certificates_that_breaks_takes_away_nothing() {
    let folder = Folder::new();
    let path = folder.0.join("ca.crt");
    let ca = authority("authority");
    let (address, _) = tls_pages(&ca, &["127.0.0.1"], false, OK).await;
    let mut client = crate::checks::tls::TlsClient::new(Tls { server_name: None, trust: file(&path, &ca) });
    std::fs::remove_file(&path).unwrap();
    let target = address.into();
    client.look();
    assert!(client.connector(&target).is_ok());
}
