use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    ignored: IgnoredFlags,
}

fn parse(args: &[String]) -> Result<Vec<String>, clap::Error> {
    let words = std::iter::once("ccm".to_owned()).chain(args.iter().cloned());
    Cli::try_parse_from(words).map(|cli| cli.ignored.warnings().collect())
}

#[test]
fn each_flag_is_taken_with_any_value_and_answered_with_one_warning_that_names_it() {
    for flag in NOOP_FLAGS {
        let name = flag.name;
        for value in ["true", "false", "", "10.0.0.0/8", "no such value"] {
            let warnings =
                parse(&[format!("--{name}={value}")]).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(warnings, [format!("--{name} has no effect: {}", flag.reason)]);
        }
        let twice = parse(&[format!("--{name}=a"), format!("--{name}=b")]).unwrap();
        assert_eq!(twice.len(), 1, "{name}");
        let bare = match flag.form {
            FlagForm::Switch => parse(&[format!("--{name}")]),
            FlagForm::Value => parse(&[format!("--{name}"), "-value".to_owned()]),
        };
        assert_eq!(bare.unwrap_or_else(|error| panic!("{name}: {error}")).len(), 1);
    }
}

#[test]
fn without_flags_nothing_is_said_and_an_unknown_flag_stays_an_error() {
    assert_eq!(parse(&[]).unwrap(), Vec::<String>::new());
    for unknown in ["--no-such-flag", "--profilin", "--cluster-cidrs=10.0.0.0/8"] {
        assert!(parse(&[unknown.to_owned()]).is_err(), "{unknown}");
    }
    // A switch takes no word after it: that is a positional argument, as for Go.
    assert!(parse(&["--profiling".to_owned(), "false".to_owned()]).is_err());
}

#[test]
fn the_table_is_sorted_so_that_a_flag_is_in_it_once() {
    let names: Vec<_> = NOOP_FLAGS.iter().map(|flag| flag.name).collect();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}
