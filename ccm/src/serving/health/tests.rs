use super::*;

fn ask(health: &HealthChecks, path: &str, reasons: bool) -> (u16, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let health_query = HealthQuery::new(Probe::Healthz, path.strip_prefix("/healthz").unwrap(), query);
    health.report(&health_query).answer(&health_query, reasons)
}

// shows: ccm-contract H-05
#[test]
fn probes_answer_in_the_words_of_kubernetes() {
    let health = HealthChecks::new();
    health.add("leaderElection", Scope::HEALTHZ, || Err("the lease is old".to_owned()));
    let all = "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n";
    let table = [
        ("/healthz", false, 500, all),
        ("/healthz?verbose", true, 500, &all.replace("reason withheld", "the lease is old")),
        ("/healthz?exclude=leaderElection", false, 200, "ok"),
        (
            "/healthz?verbose=1&exclude=leaderElection&exclude=nobody",
            false,
            200,
            "[+]ping ok\n[+]leaderElection excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"nobody\"\nhealthz check passed\n",
        ),
        ("/healthz/ping", false, 200, "ok"),
        ("/healthz/", false, 500, all),
        ("/healthz/leaderElection", true, 500, "internal server error: the lease is old\n"),
        ("/healthz/leaderElection", false, 500, "internal server error: reason withheld\n"),
        ("/healthz/nobody", true, 404, "there is no check \"nobody\" in healthz\n"),
    ];
    for (path, reasons, code, text) in table {
        assert_eq!(ask(&health, path, reasons), (code, text.to_owned()), "{path}");
    }
}

#[test]
fn a_check_belongs_to_its_probes_and_may_be_replaced_while_it_is_served() {
    let health = HealthChecks::new();
    let clone = health.clone();
    clone.add("synced", Scope::READY, || Err("not yet".to_owned()));
    let code = |probe| {
        let health_query = HealthQuery::new(probe, "", "");
        health.report(&health_query).answer(&health_query, true).0
    };
    assert_eq!([Probe::Healthz, Probe::Livez, Probe::Readyz].map(code), [200, 200, 500]);
    clone.add("synced", Scope::READY, || Ok(()));
    assert_eq!(code(Probe::Readyz), 200);
    assert_eq!(format!("{health:?}"), r#"["ping", "synced"]"#);
}

// shows: ccm-contract H-06
#[test]
fn checks_that_ran_are_counted_and_excluded_ones_are_not() {
    let health = HealthChecks::new();
    health.add("synced", Scope::HEALTHZ, || Err("not yet".to_owned()));
    ask(&health, "/healthz", false);
    ask(&health, "/healthz?exclude=synced", false);
    let text = prometheus::TextEncoder::new().encode_to_string(&health.slis().gather()).unwrap();
    for line in [
        r#"kubernetes_healthcheck{name="ping",type="healthz"} 1"#,
        r#"kubernetes_healthcheck{name="synced",type="healthz"} 0"#,
        r#"kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2"#,
        r#"kubernetes_healthchecks_total{name="synced",status="error",type="healthz"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
