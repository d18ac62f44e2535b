use super::*;

/// A service account in a folder of its own.
fn account(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("windlass-ccm-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (file, text) in [("token", "secret"), ("ca.crt", ca), ("namespace", "kube-system\n")] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn environment<'a>(host: &'a str, port: &'a str) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| match name {
        HOST => Some(host.to_owned()),
        PORT => Some(port.to_owned()),
        _ => None,
    }
}

#[test]
fn the_api_server_of_a_pod_is_where_the_environment_says() {
    let folder = account("environment");
    let rows = [
        ("192.0.2.10", "6443", "https://192.0.2.10:6443/"),
        ("2001:db8::10", "6443", "https://[2001:db8::10]:6443/"),
        ("[2001:db8::10]", "443", "https://[2001:db8::10]:443/"),
        ("api.example.org", "443", "https://api.example.org:443/"),
    ];
    for (host, port, url) in rows {
        let config = in_cluster(environment(host, port), &folder, None).unwrap();
        assert_eq!(config.cluster_url.to_string(), url);
        assert_eq!(config.default_namespace, "kube-system");
        assert_eq!(config.root_cert, Some(vec![vec![0; 3]]), "without it kube asks for the system's CAs");
        assert_eq!(config.root_cert_file, Some(folder.join("ca.crt")));
        assert_eq!(config.auth_info.token_file.as_deref(), folder.join("token").to_str());
    }
    let master = url("https://192.0.2.99:6443").unwrap();
    let config = in_cluster(|_| None, &folder, Some(&master)).unwrap();
    assert_eq!(config.cluster_url, master, "--master needs no environment");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_pod_lacks_is_named() {
    let folder = account("lacking");
    let lacking = |host: &str, port: &str, folder: &Path| {
        in_cluster(environment(host, port), folder, None).unwrap_err().to_string()
    };
    for (host, port, reason) in [
        ("", "443", "KUBERNETES_SERVICE_HOST is not set"),
        ("192.0.2.10", "", "KUBERNETES_SERVICE_PORT is not set"),
        ("192.0.2.10", "http", "KUBERNETES_SERVICE_PORT \"http\" is not a port number"),
        ("not a host", "443", "KUBERNETES_SERVICE_HOST \"not a host\" is not a host"),
    ] {
        let error = lacking(host, port, &folder);
        assert!(error.contains(reason) && error.contains("--kubeconfig FILE"), "{error}");
    }
    std::fs::remove_file(folder.join("token")).unwrap();
    let error = lacking("192.0.2.10", "443", &folder);
    assert!(error.contains("token: No such file"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn master_is_used_in_place_of_the_kubeconfigs_server() {
    let folder = account("master");
    let write = |name: &str, server: &str| {
        let path = folder.join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{{server}}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    };
    let whole = write("whole.conf", "server: 'http://127.0.0.1:1'");
    let found = ApiServerConfig::find(Some(&whole), None).await.unwrap();
    assert_eq!(found.name, format!("API server http://127.0.0.1:1 (kubeconfig {})", whole.display()));
    for file in [&whole, &write("without.conf", "insecure-skip-tls-verify: true")] {
        let found = ApiServerConfig::find(Some(file), Some("https://192.0.2.99:6443")).await.unwrap();
        assert_eq!(found.config.cluster_url.to_string(), "https://192.0.2.99:6443/");
        assert!(found.name.contains("192.0.2.99") && found.name.contains("--master"), "{}", found.name);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_master_that_is_no_url_is_refused_with_an_example() {
    for (text, expected) in [("192.0.2.1:8080", "http://192.0.2.1:8080/"), ("https://a", "https://a/")] {
        assert_eq!(url(text).unwrap().to_string(), expected);
    }
    for text in ["", "ftp://192.0.2.1", "https://", "a b", "unix:///run/x"] {
        let error = url(text).expect_err(text).to_string();
        assert!(
            error.starts_with("--master ") && error.contains("https://192.0.2.10:6443"),
            "{text:?}: {error}"
        );
    }
}
