use super::*;

fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from([&["windlass"], args].concat())
}

#[test]
fn the_command_definition_is_consistent() {
    use clap::CommandFactory as _;
    Cli::command().debug_assert();
}

#[test]
fn leader_elect_can_be_bare_true_or_false_as_for_every_cloud_controller_manager() {
    for (args, expected) in [
        (&["controller"][..], true),
        (&["controller", "--leader-elect"], true),
        (&["controller", "--leader-elect=true"], true),
        (&["controller", "--leader-elect=false"], false),
    ] {
        let Role::Controller(parsed) = parse(args).unwrap().role else { panic!("{args:?}") };
        assert_eq!(parsed.leader_elect, expected, "{args:?}");
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for args in [
        &["controller", "--concurrent-service-syncs=0"][..],
        &["controller", "--cloud-provider=aws"],
        &["controller", "--http-address=here"],
        &["controller", "--log-level=loud,,=x"],
        &["agent", "--node-name=Not A Node"],
        &["agent", "--node-name="],
        &["agent", "--node-name=-n1"],
        &["agent", "--node-name=n1", "--state-dir"],
        &["agent", "--node-name=n1", "extra"],
        &[],
    ] {
        assert!(parse(args).is_err(), "{args:?}");
    }
    assert!(parse(&["agent", "--node-name=worker-1.example.org"]).is_ok());
}
