use ControllerName::{CloudNode, CloudNodeLifecycle, Route, Service};

use super::*;

// shows: ccm-contract 283
#[test]
fn controllers_are_named_as_everywhere_283() {
    for controller in ControllerName::ALL {
        let name = controller.as_str();
        assert!(name.ends_with("-controller"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
    }
}

// shows: ccm-contract 284
#[test]
fn every_alias_means_its_controller_with_and_without_a_minus_284() {
    let rows = [
        ("service", Service, "service-lb-controller"),
        ("route", Route, "node-route-controller"),
        ("cloud-node", CloudNode, "cloud-node-controller"),
        ("cloud-node-lifecycle", CloudNodeLifecycle, "cloud-node-lifecycle-controller"),
    ];
    for (alias, controller, name) in rows {
        assert_eq!((controller.alias(), controller.as_str()), (alias, name));
        let by_alias = select(&[alias]).unwrap();
        assert_eq!(by_alias.enabled, BTreeSet::from([controller]), "{alias}");
        assert_eq!(select(&[name]).unwrap(), by_alias, "{alias}");
        let without = select(&["*".to_owned(), format!("-{alias}")]).unwrap();
        assert_eq!(without.enabled.len(), 3, "-{alias}");
        assert!(!without.enabled.contains(&controller), "-{alias}");
    }
}

#[test]
fn a_list_selects_controllers() {
    let all = &ControllerName::ALL[..];
    let rows: [(&[&str], &[ControllerName], &[ControllerName]); 10] = [
        (&["*"], all, &[]),
        (&["service"], &[Service], &[Service]),
        (&["*", "service"], all, &[Service]),
        (&["*", "-service"], &[CloudNode, CloudNodeLifecycle, Route], &[]),
        (&["-service", "*"], &[CloudNode, CloudNodeLifecycle, Route], &[]),
        (&["-service"], &[], &[]),
        (&["service", "-service", "*"], all, &[Service]),
        (&["-service", "service-lb-controller"], &[], &[]),
        (&[" service ", ""], &[Service], &[Service]),
        (&[], &[], &[]),
    ];
    for (list, enabled, named) in rows {
        let selection = select(list).unwrap();
        assert_eq!(selection.enabled, enabled.iter().copied().collect(), "{list:?}");
        assert_eq!(selection.named, named.iter().copied().collect(), "{list:?}");
    }
}

#[test]
fn a_controller_that_there_is_not_is_named_with_those_that_there_are() {
    for entry in ["x", "-x"] {
        let error = select(&["*", entry]).unwrap_err().to_string();
        assert!(error.starts_with("\"x\" is not in the list of known controllers; known are "), "{error}");
        assert!(error.contains("service-lb-controller"), "{error}");
    }
}
