//! TokenReviews and SubjectAccessReviews of the API server: users by token, and what they may read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Accounts and their rights.
#[derive(Default)]
pub(super) struct AccessRules {
    /// User information by token.
    pub(super) tokens: BTreeMap<String, Value>,
    /// Users or groups, with verb and path.
    pub(super) rights: BTreeSet<(String, String, String)>,
}

impl AccessRules {
    /// The answer to a review; `None` for what is none.
    pub(super) fn review(&self, plural: &str, mut review: Value) -> Option<Value> {
        let status = match plural {
            "tokenreviews" => {
                let token = review["spec"]["token"].as_str().unwrap_or_default();
                match self.tokens.get(token) {
                    Some(user) => json!({ "authenticated": true, "user": user }),
                    None => json!({ "error": "invalid bearer token" }),
                }
            }
            "subjectaccessreviews" => {
                let spec = &review["spec"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let asked = &spec["nonResourceAttributes"];
                let groups = spec["groups"].as_array().into_iter().flatten().map(text);
                let allowed = groups
                    .chain([text(&spec["user"])])
                    .any(|who| self.rights.contains(&(who, text(&asked["verb"]), text(&asked["path"]))));
                json!({ "allowed": allowed })
            }
            _ => return None,
        };
        review["status"] = status;
        Some(review)
    }
}
