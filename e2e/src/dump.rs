//! What the cluster and the logs show, printed when a scenario failed.

use std::fs;

use crate::{daemons::tail, lab::Lab};

/// Lines of each log that are shown.
const LINES: usize = 25;

/// Looks at the cluster from the admin's side, each as `kubectl get`.
const LOOKS: [&str; 7] = [
    "nodes --output=wide",
    "pods --all-namespaces --output=wide",
    "services --all-namespaces --output=wide",
    "endpointslices --all-namespaces",
    "leases --all-namespaces",
    "ippools,virtualips,virtualrouters,nodenetworks --output=yaml",
    "events --all-namespaces --sort-by=.lastTimestamp",
];

/// Prints what went wrong on standard error.
pub(crate) async fn print(lab: &Lab, error: &anyhow::Error) {
    eprintln!("\n==== lab {} failed: {error:#}", lab.name());
    for look in LOOKS {
        let mut command = vec!["get", "--request-timeout=5s"];
        command.extend(look.split(' '));
        eprintln!("\n---- kubectl get {look}");
        match lab.kubectl(&command).await {
            Ok(text) => eprintln!("{}", text.trim_end()),
            Err(error) => eprintln!("({})", error.root_cause()),
        }
    }
    let mut logs: Vec<_> =
        fs::read_dir(lab.logs()).into_iter().flatten().flatten().map(|e| e.path()).collect();
    logs.sort();
    for log in logs {
        eprintln!("\n---- last lines of {}", log.display());
        eprintln!("{}", tail(&log, LINES));
    }
    eprintln!("\n==== lab {} failed: {error:#}\n==== logs: {}", lab.name(), lab.logs().display());
}
