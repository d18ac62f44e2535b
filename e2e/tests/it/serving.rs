//! Who may read what of a controller, by the word of the real API server.

use anyhow::ensure;
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use crate::setup::LIMIT;

const LEADER: u16 = 10258;
const STANDBY: u16 = 10268;
/// Where the standby writes its certificate.
const FOLDER: &str = "/run/lab/standby";

/// What is answered at a path of a controller, to a caller with these words of curl: status and text.
async fn ask(lab: &Lab, port: u16, path: &str, caller: &[&str]) -> anyhow::Result<(u16, String)> {
    let url = format!("https://127.0.0.1:{port}{path}");
    let words = ["curl", "-sSk", "--noproxy", "*", "--max-time", "15", "-w", "\n%{http_code}", &*url];
    let said = lab.exec("cp", &[&words[..], caller].concat()).await?;
    let (text, code) = said.trim_end().rsplit_once('\n').unwrap_or(("", &said));
    Ok((code.trim().parse()?, text.to_owned()))
}

/// Fails unless the answer has this status and these words in it.
async fn expect(
    lab: &Lab,
    port: u16,
    path: &str,
    caller: &[&str],
    (code, words): (u16, &str),
) -> anyhow::Result<()> {
    let (found, text) = ask(lab, port, path, caller).await?;
    ensure!(found == code && text.contains(words), "{path} at {port}: {found} {text}, not {code} {words}");
    Ok(())
}

#[test]
fn metrics_are_for_those_whom_the_api_server_lets_and_health_for_everybody() -> anyhow::Result<()> {
    scenario("serving", Lab::builder().nodes(1).light(), async |lab| {
        lab.deploy_windlass(&[]).await?;
        let flags = vec![format!("--cert-dir={FOLDER}")];
        let standby = ControllerOptions { name: "standby".into(), http_port: STANDBY, flags };
        lab.start_controller(standby)?;
        for port in [LEADER, STANDBY] {
            await_that("the controller is ready", LIMIT, async || {
                for path in ["/healthz", "/livez", "/readyz"] {
                    expect(lab, port, path, &[], (200, "ok")).await?;
                }
                Ok(Some(()))
            })
            .await?;
        }

        lab.kubectl(&["create", "serviceaccount", "scraper"]).await?;
        let token = lab.kubectl(&["create", "token", "scraper"]).await?;
        let bearer = format!("Authorization: Bearer {}", token.trim());
        let [scraper, stranger] = [["-H", &*bearer], ["-H", "Authorization: Bearer nonsense"]];
        let admin = lab.admin_bearer()?;
        let admin = ["-H", &*admin];
        let refused = r#"user "system:serviceaccount:default:scraper" may not get /metrics"#;
        for port in [LEADER, STANDBY] {
            expect(lab, port, "/metrics", &[], (401, "the caller is unknown")).await?;
            expect(lab, port, "/metrics", &stranger, (401, "none of this cluster")).await?;
            expect(lab, port, "/metrics", &scraper, (403, refused)).await?;
            expect(lab, port, "/healthz/ping", &[], (401, "")).await?;
            expect(lab, port, "/metrics", &admin, (200, "leader_election_master_status")).await?;
            expect(lab, port, "/metrics/slis", &admin, (200, "kubernetes_healthcheck{name=\"ping\"")).await?;
            expect(lab, port, "/configz", &admin, (404, "")).await?;
        }

        let may = ["create", "clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics"];
        lab.kubectl(&may).await?;
        let bind = ["create", "clusterrolebinding", "scraper", "--clusterrole=scraper"];
        lab.kubectl(&[&bind[..], &["--serviceaccount=default:scraper"]].concat()).await?;
        for port in [LEADER, STANDBY] {
            await_that("the permission is seen", LIMIT, async || {
                expect(lab, port, "/metrics", &scraper, (200, "leader_election_master_status")).await?;
                Ok(Some(()))
            })
            .await?;
            expect(lab, port, "/metrics/slis", &scraper, (403, "may not get /metrics/slis")).await?;
        }

        // A client of Go's, which offers HTTP/2 too and knows the standby by the certificate that it wrote.
        let server = format!("--server=https://127.0.0.1:{STANDBY}");
        let ca = format!("--certificate-authority={FOLDER}/cloud-controller-manager.crt");
        let token = format!("--token={}", token.trim());
        let go = ["--kubeconfig=/dev/null", &*server, &*ca, &*token, "get", "--raw", "/metrics"];
        let text = lab.kubectl(&go).await?;
        ensure!(text.contains("leader_election_master_status"), "{text}");

        // Whatever it says after garbage, it goes on answering others.
        let garbage = format!("head -c 200000 /dev/urandom > /dev/tcp/127.0.0.1/{LEADER} || true");
        for _ in 0..5 {
            lab.exec("cp", &["bash", "-c", &garbage]).await?;
        }
        expect(lab, LEADER, "/healthz", &[], (200, "ok")).await?;

        // Without the API server nobody new is let in; the kubelet's probe is answered all the same.
        lab.stop_api_server().await?;
        let unknown = ["-H", "Authorization: Bearer another"];
        expect(lab, STANDBY, "/metrics", &unknown, (503, "could not be asked whose the token is")).await?;
        expect(lab, STANDBY, "/livez", &[], (200, "ok")).await?;
        lab.start_api_server().await?;
        expect(lab, STANDBY, "/metrics", &unknown, (401, "none of this cluster")).await
    })
}
