//! Certificates, tokens and kubeconfigs of a lab's cluster.

use std::{
    fmt::Write as _,
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use crate::topology::{self, Host, Role};

/// User of the API server: name of the kubeconfig file, user, groups.
struct Account {
    file: String,
    user: String,
    groups: &'static str,
}

const AUTHENTICATED: &str = "system:authenticated";
const WINDLASS: &str = "system:serviceaccounts,system:serviceaccounts:windlass-system,system:authenticated";

/// Returns every user that has a token.
fn accounts(hosts: &[Host]) -> Vec<Account> {
    let account = |file: &str, user: &str, groups| Account { file: file.into(), user: user.into(), groups };
    let service_account = |role: &str| format!("system:serviceaccount:windlass-system:windlass-{role}");
    let mut accounts = vec![
        account("admin", "lab-admin", "system:masters"),
        account("controller", &service_account("controller"), WINDLASS),
        account("agent", &service_account("agent"), WINDLASS),
        account("kube-proxy", "system:kube-proxy", AUTHENTICATED),
        account("kube-controller-manager", "system:kube-controller-manager", AUTHENTICATED),
        account("kube-scheduler", "system:kube-scheduler", AUTHENTICATED),
    ];
    for node in hosts.iter().filter(|host| matches!(host.role, Role::Node(_))) {
        accounts.push(account(&node.name, &format!("system:node:{}", node.name), "system:nodes"));
    }
    accounts
}

/// The files, in the lab's folder on the host.
#[derive(Clone, Debug)]
pub(crate) struct Pki {
    folder: PathBuf,
    /// Address of the API server, with its port.
    server: String,
}

impl Pki {
    /// Makes everything: a CA, the certificate of all API servers, for their `service_address` too, the service accounts' key, and a
    /// kubeconfig with a token of its own for each account, which names the API server at `api_address`.
    pub(crate) fn make(
        folder: PathBuf,
        hosts: &[Host],
        api_address: Ipv4Addr,
        service_address: &str,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let pki = Self { folder, server: format!("{api_address}:6443") };
        let of_nodes = hosts.iter().filter(|host| host.role == Role::ControlPlaneNode);
        let names: Vec<String> = of_nodes
            .map(|host| host.address)
            .chain([api_address])
            .flat_map(|address| [IpAddr::from(address), topology::ipv6_of(address).into()])
            .map(|address| format!("IP:{address}"))
            .collect();
        let names = names.join(",");
        let extensions = format!(
            "subjectAltName={names},IP:{service_address},IP:127.0.0.1,DNS:kubernetes.default.svc\n\
             basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth\n"
        );
        pki.write("extensions", &extensions)?;
        let script = "
            key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
            openssl req -x509 $key -keyout ca.key -out ca.crt -days 3650 -subj /CN=windlass-lab
            openssl req -new $key -keyout apiserver.key -out apiserver.csr -subj /CN=kube-apiserver
            openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 \
                -extfile extensions -out apiserver.crt
            openssl ecparam -name prime256v1 -genkey -noout -out service-accounts.key
            openssl pkey -in service-accounts.key -pubout -out service-accounts.pub";
        let output = Command::new("sh").args(["-ec", script]).current_dir(&pki.folder).output()?;
        let complaints = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "openssl could not make the lab's certificates: {}",
            complaints.trim()
        );

        let mut tokens = String::new();
        for (index, Account { file, user, groups }) in accounts(hosts).into_iter().enumerate() {
            let token = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
            let _ = writeln!(tokens, "{token},{user},{index},\"{groups}\"");
            pki.add_account(&file, &token)?;
        }
        pki.write("tokens.csv", &tokens)?;
        Ok(pki)
    }

    /// Path of one of the files, as `ca.crt`.
    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    /// The kubeconfig of an account: `admin`, `controller`, `agent`, or a node's name.
    pub(crate) fn kubeconfig(&self, account: &str) -> PathBuf {
        self.folder.join(format!("{account}.kubeconfig"))
    }

    /// The bearer token of an account.
    pub(crate) fn token(&self, account: &str) -> anyhow::Result<String> {
        let config: serde_json::Value = serde_json::from_str(&fs::read_to_string(self.kubeconfig(account))?)?;
        let token = config.pointer("/users/0/user/token").and_then(serde_json::Value::as_str);
        Ok(token.with_context(|| format!("account {account} has no token"))?.to_owned())
    }

    /// Writes the kubeconfig of an account: of another one, whose token the API server has made.
    pub(crate) fn add_account(&self, account: &str, token: &str) -> anyhow::Result<()> {
        let server = format!("https://{}", self.server);
        self.write(&format!("{account}.kubeconfig"), &kubeconfig(&server, &self.path("ca.crt"), token))
    }

    /// Writes the admin's kubeconfig for an API server reached at `127.0.0.1:port` and returns its path.
    pub(crate) fn forwarded_kubeconfig(&self, port: u16) -> anyhow::Result<PathBuf> {
        self.admin_at("host", &format!("127.0.0.1:{port}"))
    }

    /// Writes the admin's kubeconfig for the API server at `server` under this name and returns its path.
    pub(crate) fn admin_at(&self, name: &str, server: &str) -> anyhow::Result<PathBuf> {
        let text = fs::read_to_string(self.kubeconfig("admin"))?;
        self.write(&format!("{name}.kubeconfig"), &text.replace(&self.server, server))?;
        Ok(self.kubeconfig(name))
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        write_private(&self.folder.join(file), text)
    }
}

/// Writes a file that only its owner can read: it may hold a token.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}

fn kubeconfig(server: &str, ca: &str, token: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": "lab", "user": {"token": token}}],
    })
    .to_string()
}
