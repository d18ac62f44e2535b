//! Answers that no request should get.

use serde_json::json;

use super::apiserver::{failure, line};
use super::faults::Mishap;

/// The status code of the answer.
pub(super) fn code(mishap: Mishap, is_watch: bool) -> u16 {
    match mishap {
        Mishap::Status(code) => code,
        Mishap::Told(code) if !is_watch => code,
        Mishap::TooMany(_) => 429,
        Mishap::Told(_)
        | Mishap::Nonsense
        | Mishap::Garbage
        | Mishap::Empty
        | Mishap::Other
        | Mishap::Reset
        | Mishap::Silence => 200,
    }
}

/// What is in the answer.
pub(super) fn body(mishap: Mishap, is_watch: bool) -> String {
    let words = "as the test orders";
    match mishap {
        Mishap::Told(code) if is_watch => line("ERROR", &failure(code, words)) + "\n",
        Mishap::Status(code) | Mishap::Told(code) => failure(code, words).to_string(),
        Mishap::TooMany(seconds) => {
            let mut failure = failure(429, words);
            failure["details"] = json!({ "retryAfterSeconds": seconds });
            failure.to_string()
        }
        Mishap::Garbage => "<html>502 Bad Gateway</html>\n\u{fffd}{{{\n".to_owned(),
        Mishap::Nonsense if is_watch => {
            let nonsense = json!({ "metadata": { "name": 7 }, "spec": [], "status": "fine" });
            line("ADDED", &nonsense) + "\n"
        }
        Mishap::Nonsense => json!({ "metadata": { "name": 7 }, "spec": [], "status": "fine" }).to_string(),
        Mishap::Other => json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }).to_string(),
        Mishap::Empty | Mishap::Reset | Mishap::Silence => String::new(),
    }
}
