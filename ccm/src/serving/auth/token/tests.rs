use k8s_openapi::api::authentication::v1::UserInfo;

use super::*;

#[test]
fn an_answer_names_a_user_only_for_a_good_token_and_with_a_name() {
    let table = [
        (Some(true), Some("jane"), true),
        (Some(false), Some("jane"), false),
        (None, Some("jane"), false),
        (Some(true), Some(""), false),
        (Some(true), None, false),
    ];
    for (authenticated, name, expected) in table {
        let user = UserInfo { username: name.map(str::to_owned), ..UserInfo::default() };
        let status = TokenReviewStatus { authenticated, user: Some(user), ..TokenReviewStatus::default() };
        assert_eq!(read(status).is_some(), expected, "{authenticated:?} {name:?}");
    }
    let nobody = TokenReviewStatus { authenticated: Some(true), ..TokenReviewStatus::default() };
    assert_eq!(read(nobody), None);
}
