//! Dump of the cluster and the logs after a failed scenario.

use std::{fmt::Write as _, fs};

use crate::{daemons::tail, lab::Lab};

/// Lines of each log that are shown.
const LINES: usize = 25;

/// Views of the cluster as the admin: the arguments of each `kubectl` call.
const LOOKS: [&str; 8] = [
    "get nodes --output=wide",
    "get pods --all-namespaces --output=wide",
    "get services --all-namespaces --output=wide",
    "get endpointslices --all-namespaces",
    "get leases --all-namespaces",
    "get virtualippools,virtualips,virtualrouters,nodenetworks --output=yaml",
    "get events --all-namespaces --sort-by=.lastTimestamp",
    // Windlass's own, where it runs in pods.
    "logs --namespace=windlass-system --selector=app.kubernetes.io/name=windlass --prefix --tail=60",
];

/// Returns the state of the cluster and the ends of the logs as text.
pub(crate) async fn text(lab: &Lab, error: &anyhow::Error) -> String {
    let mut text = format!("\n==== lab {} failed: {error:#}\n", lab.name());
    for look in LOOKS {
        let mut command = vec!["--request-timeout=5s"];
        command.extend(look.split(' '));
        let shown = match lab.kubectl(&command).await {
            Ok(shown) => shown.trim_end().to_owned(),
            Err(error) => format!("({})", error.root_cause()),
        };
        let _ = writeln!(text, "\n---- kubectl {look}\n{shown}");
    }
    for host in &lab.hosts {
        let shown = match lab.exec(&host.name, &["ip", "-brief", "address"]).await {
            Ok(shown) => shown.trim_end().to_owned(),
            Err(error) => format!("({})", error.root_cause()),
        };
        let _ = writeln!(text, "\n---- addresses of {}\n{shown}", host.name);
    }
    let mut logs: Vec<_> =
        fs::read_dir(lab.logs()).into_iter().flatten().flatten().map(|e| e.path()).collect();
    logs.sort();
    for log in logs {
        let _ = writeln!(text, "\n---- last lines of {}\n{}", log.display(), tail(&log, LINES));
    }
    let _ =
        writeln!(text, "\n==== lab {} failed: {error:#}\n==== logs: {}", lab.name(), lab.logs().display());
    text
}
