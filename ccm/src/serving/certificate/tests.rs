use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windlass-serving-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

// shows: ccm-contract H-04
#[test]
fn a_self_signed_certificate_has_the_names_of_the_host_and_lasts_ten_years() {
    let now: Timestamp = "2028-02-29T12:00:00Z".parse().unwrap();
    let bind = "192.0.2.7".parse().unwrap();
    let made = params(Some("Node-1"), bind, now).unwrap();
    let shown = format!("{:?}", made.subject_alt_names);
    for name in ["localhost", "node-1", "127.0.0.1", "::1", "192.0.2.7"] {
        assert!(shown.contains(name), "{name} in {shown}");
    }
    assert_eq!(made.not_before, date_time_ymd(2028, 2, 28));
    assert_eq!(made.not_after, date_time_ymd(2038, 2, 28));
    // Names that no certificate can have, and none at all.
    for host in [Some("ä"), Some(""), None] {
        let made = params(host, HERE, now).unwrap();
        assert!(made.self_signed(&KeyPair::generate().unwrap()).is_ok(), "{host:?}");
    }
}

// shows: ccm-contract H-04
#[tokio::test]
async fn a_folder_gets_a_pair_once_and_keeps_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder("folder").join("below");
    let source = TlsSource::Folder(folder.clone());
    Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap();
    let key = folder.join("cloud-controller-manager.key");
    let written = std::fs::read(&key).unwrap();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap();
    assert_eq!(std::fs::read(&key).unwrap(), written);

    std::fs::remove_file(&key).unwrap();
    let error = Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap_err().to_string();
    assert!(error.contains("cloud-controller-manager.key is missing"), "{error}");
    let source = TlsSource::Folder("/proc/nowhere".into());
    let error = Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap_err().to_string();
    assert!(error.contains("/proc/nowhere") && error.contains("may write to"), "{error}");
}

// shows: ccm-contract H-04
#[tokio::test]
async fn a_changed_pair_is_taken_over_and_a_broken_one_refused() {
    let folder = folder("reload");
    let [cert, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name));
    let put = |(chain, secret): &(String, String)| {
        std::fs::write(&cert, chain).unwrap();
        std::fs::write(&key, secret).unwrap();
    };
    let [first, second] = [self_signed(HERE).unwrap(), self_signed(HERE).unwrap()];
    put(&first);
    let source = TlsSource::Files { cert: cert.clone(), key: key.clone() };
    let mut certificate = Certificate::load(&source, TlsVersion::Tls13, HERE).unwrap();
    let mut current = certificate.current();
    assert!(certificate.reread().is_none(), "nothing changed");

    // Half of a change: the key is not there yet.
    std::fs::write(&cert, &second.0).unwrap();
    let error = certificate.reread().unwrap().unwrap_err();
    assert!(error.contains("cannot be used together"), "{error}");
    assert!(certificate.reread().is_none(), "said once");
    std::fs::write(&key, "no key").unwrap();
    assert!(certificate.reread().unwrap().is_err());
    std::fs::remove_file(&key).unwrap();
    assert!(certificate.reread().unwrap().unwrap_err().contains("cannot read"));
    assert!(!current.has_changed().unwrap(), "the old one stays");
    put(&second);
    assert_eq!(certificate.reread(), Some(Ok(())));
    assert!(current.has_changed().unwrap());
    current.mark_unchanged();
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_is_named_at_the_start() {
    let folder = folder("bad");
    let (chain, secret) = self_signed(HERE).unwrap();
    let other = self_signed(HERE).unwrap().1;
    let [cert, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name));
    let source = TlsSource::Files { cert: cert.clone(), key: key.clone() };
    let table = [
        (None, Some(&*secret), "cannot read"),
        (Some(&*chain), None, "cannot read"),
        (Some(""), Some(&*secret), "no certificate"),
        (Some(&*chain), Some("nonsense"), "the key file has no private key in valid PEM"),
        (Some(&*chain), Some(&*other), "cannot be used together"),
        (Some(&*secret), Some(&*secret), "no certificate"),
    ];
    for (chain, secret, reason) in table {
        for (file, text) in [(&cert, chain), (&key, secret)] {
            let _ = std::fs::remove_file(file);
            if let Some(text) = text {
                std::fs::write(file, text).unwrap();
            }
        }
        let error = Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("tls.key"), "{reason}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_pair_is_found_without_being_asked() {
    let folder = folder("follow");
    let [cert, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name));
    let put = || {
        let (chain, secret) = self_signed(HERE).unwrap();
        std::fs::write(&cert, chain).unwrap();
        std::fs::write(&key, secret).unwrap();
    };
    put();
    let source = TlsSource::Files { cert: cert.clone(), key: key.clone() };
    let certificate = Certificate::load(&source, TlsVersion::Tls12, HERE).unwrap();
    let mut current = certificate.current();
    let following = tokio::spawn(certificate.follow());
    put();
    tokio::time::timeout(std::time::Duration::from_mins(1), current.changed()).await.unwrap().unwrap();
    following.abort();
}
