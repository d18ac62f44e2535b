use std::collections::BTreeMap;

use super::*;

#[test]
fn a_denial_wins_over_a_permission() {
    let table = [
        (true, None, true),
        (true, Some(false), true),
        (true, Some(true), false),
        (false, None, false),
        (false, Some(false), false),
    ];
    for (allowed, denied, expected) in table {
        let status = SubjectAccessReviewStatus { allowed, denied, ..SubjectAccessReviewStatus::default() };
        assert_eq!(super::allowed(&status), expected, "{allowed} {denied:?}");
    }
}

#[test]
fn all_that_is_known_of_a_user_is_asked_about() {
    let (groups, scopes) = (vec!["people".to_owned()], vec!["a".to_owned()]);
    let extra = BTreeMap::from([("scopes".to_owned(), scopes)]);
    let user = User { name: "jane".to_owned(), uid: Some("7".to_owned()), groups, extra };
    let asked = review_spec(&user, "get", "/metrics");
    let user = User {
        name: asked.user.unwrap(),
        uid: asked.uid,
        groups: asked.groups.unwrap(),
        extra: asked.extra.unwrap(),
    };
    assert_eq!(review_spec(&user, "get", "/metrics").extra.unwrap()["scopes"], ["a"]);
    assert_eq!(
        (&*user.name, user.uid.as_deref(), &*user.groups),
        ("jane", Some("7"), &["people".to_owned()][..])
    );
    let path = asked.non_resource_attributes.unwrap();
    assert_eq!((path.verb.as_deref(), path.path.as_deref()), (Some("get"), Some("/metrics")));
    assert!(asked.resource_attributes.is_none());
}
