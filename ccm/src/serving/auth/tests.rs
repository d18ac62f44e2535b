use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::testing::apiserver::ApiServer;

/// A gate before an API server that knows a token, and what may be done with it.
fn auth_filter() -> (ApiServer, Arc<AuthFilter>) {
    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &[]);
    api.permit("prometheus", "get", "/metrics");
    let auth_filter = AuthFilter::new(&AuthOptions::default(), api.client());
    (api, Arc::new(auth_filter))
}

async fn authorize(auth_filter: &AuthFilter, token: &str) -> Result<Access, AuthError> {
    authorize_from(auth_filter, token, 1).await
}

/// The same by a caller whose address ends in this number.
async fn authorize_from(auth_filter: &AuthFilter, token: &str, caller: u8) -> Result<Access, AuthError> {
    let authorization = format!("Bearer {token}");
    let (authorization, address) = (Some(authorization.as_bytes()), Some([192, 0, 2, caller].into()));
    let request = AuthRequest { verb: "get", path: "/metrics", authorization, by_password: false, address };
    auth_filter.authorize(request).await
}

/// How often the API server was asked for reviews of this kind.
fn asked(api: &ApiServer, plural: &str) -> usize {
    api.writes().iter().filter(|write| write.path == plural).count()
}

// shows: ccm-contract H-02
#[tokio::test(start_paused = true)]
async fn an_answer_is_believed_from_when_it_was_asked_for() {
    for (silent, after, again) in [(0, 9, 0), (0, 10, 1), (6, 3, 0), (6, 4, 1)] {
        let (api, auth_filter) = auth_filter();
        api.set_silent(true);
        let asking = tokio::spawn({
            let auth_filter = Arc::clone(&auth_filter);
            async move { authorize(&auth_filter, "nonsense").await }
        });
        sleep(Duration::from_secs(silent)).await;
        api.set_silent(false);
        assert!(asking.await.unwrap().is_err());
        advance(Duration::from_secs(after)).await;
        assert!(authorize(&auth_filter, "nonsense").await.is_err());
        assert_eq!(asked(&api, "tokenreviews"), 1 + again, "silent for {silent} s, then {after} s");
    }
}

// shows: ccm-contract H-02
#[tokio::test(start_paused = true)]
async fn what_was_revoked_is_believed_no_longer_than_its_time() {
    let (api, auth_filter) = auth_filter();
    assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
    api.remove_token("scraper");
    advance(Duration::from_secs(9)).await;
    assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
    // That it was asked about meanwhile does not make it good for longer.
    advance(Duration::from_secs(1)).await;
    assert!(matches!(authorize(&auth_filter, "scraper").await, Err(AuthError::Unauthenticated(_))));
    // Nor does it when the API server cannot be asked.
    api.add_token("scraper", "prometheus", &[]);
    advance(Duration::from_secs(10)).await;
    assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
    api.set_silent(true);
    advance(Duration::from_secs(10)).await;
    assert!(matches!(authorize(&auth_filter, "scraper").await, Err(AuthError::Unavailable(_))));
}

/// Reviews in an hour for a caller that scrapes each 15 s.
async fn reviews_for_a_scraper(options: &AuthOptions) -> (usize, usize) {
    let api = ApiServer::default();
    api.add_token("scraper", "prometheus", &[]);
    api.permit("prometheus", "get", "/metrics");
    let auth_filter = AuthFilter::new(options, api.client());
    for _ in 0..240 {
        assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
        advance(Duration::from_secs(15)).await;
    }
    (asked(&api, "tokenreviews"), asked(&api, "subjectaccessreviews"))
}

#[tokio::test(start_paused = true)]
async fn a_scraper_costs_one_review_of_each_kind_in_the_time_for_which_it_is_believed() {
    assert_eq!(reviews_for_a_scraper(&AuthOptions::default()).await, (240, 240));
    let as_of_the_agent = AuthOptions {
        token_ttl: Duration::from_mins(2),
        authorized_ttl: Duration::from_mins(5),
        ..AuthOptions::default()
    };
    assert_eq!(reviews_for_a_scraper(&as_of_the_agent).await, (30, 12));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tokens_is_asked_about_four_at_a_time_and_two_of_one_caller() {
    for (callers, asked) in [(100, 4), (1, 2)] {
        let (api, auth_filter) = auth_filter();
        api.set_silent(true);
        let began = Instant::now();
        let flood: Vec<_> = (0..100)
            .map(|index| {
                let auth_filter = Arc::clone(&auth_filter);
                let ask = async move {
                    authorize_from(&auth_filter, &format!("nonsense-{index}"), index % callers).await
                };
                tokio::spawn(ask)
            })
            .collect();
        for asking in flood {
            assert!(matches!(asking.await.unwrap(), Err(AuthError::Unavailable(_))));
        }
        assert_eq!(api.request_count(), asked, "the others gave up waiting for their turn");
        assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
    }
}

// shows: threats T-22
#[tokio::test(start_paused = true)]
async fn in_a_flood_of_tokens_of_one_caller_who_is_known_and_a_caller_elsewhere_are_answered() {
    let (api, auth_filter) = auth_filter();
    assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
    // What was answered is believed no longer.
    advance(Duration::from_mins(1)).await;
    api.set_silent(true);
    let before = api.request_count();
    let flood: Vec<_> = (0..100)
        .map(|index| {
            let auth_filter = Arc::clone(&auth_filter);
            tokio::spawn(async move { authorize(&auth_filter, &format!("nonsense-{index}")).await })
        })
        .collect();
    sleep(Duration::from_secs(1)).await;
    // Those of the flood that are under way stay unanswered.
    api.add_token("rotated", "prometheus", &[]);
    let asking = [("scraper", 1), ("rotated", 2)].map(|(token, caller)| {
        let auth_filter = Arc::clone(&auth_filter);
        tokio::spawn(async move { authorize_from(&auth_filter, token, caller).await })
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(api.request_count(), before + 2 + 2, "beside the two of the flood");
    api.set_silent(false);
    for one in asking {
        assert_eq!(one.await.unwrap(), Ok(Access::Authorized));
    }
    for one in flood {
        assert!(one.await.unwrap().is_err());
    }
}

// shows: threats T-22
#[tokio::test(start_paused = true)]
async fn a_token_that_is_good_no_longer_is_a_strangers() {
    let (api, auth_filter) = auth_filter();
    assert_eq!(authorize(&auth_filter, "scraper").await, Ok(Access::Authorized));
    api.remove_token("scraper");
    advance(Duration::from_mins(1)).await;
    assert!(authorize(&auth_filter, "scraper").await.is_err());
    advance(Duration::from_mins(1)).await;
    api.set_silent(true);
    let flood = ["nonsense", "nothing", "scraper"].map(|token| {
        let auth_filter = Arc::clone(&auth_filter);
        tokio::spawn(async move { authorize(&auth_filter, token).await })
    });
    let before = api.request_count();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(api.request_count(), before + 2, "it waits behind the others of its address");
    for one in flood {
        assert!(one.await.unwrap().is_err());
    }
}

#[test]
fn a_bearer_token_is_what_stands_behind_the_word() {
    let table: [(&[u8], Option<&str>); 8] = [
        (b"Bearer abc", Some("abc")),
        (b"bearer  abc ", Some("abc")),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Basic YTpi", None),
        (b"abc", None),
        (b"", None),
        (b"Bearer \xff\xfe", None),
    ];
    for (header, expected) in table {
        assert_eq!(bearer(Some(header)), expected, "{header:?}");
    }
    assert_eq!(bearer(None), None);
}

#[test]
fn a_token_may_be_the_password_of_a_browser() {
    let table = [
        // me:token, :token, me:to:ken, me:, token
        ("Basic bWU6dG9rZW4=", Some("token")),
        ("basic OnRva2Vu", Some("token")),
        ("Basic bWU6dG86a2Vu", Some("to:ken")),
        ("Basic bWU6", None),
        ("Basic dG9rZW4=", None),
        ("Basic %%%", None),
        ("Bearer bWU6dG9rZW4=", None),
        ("Basic", None),
    ];
    for (header, expected) in table {
        assert_eq!(password(Some(header.as_bytes())).as_deref(), expected, "{header}");
    }
    assert_eq!(password(None), None);
}
