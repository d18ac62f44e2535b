//! The answer to a request that a [`Fault`] happens to.

use serde_json::json;

use super::faults::Fault;
use super::responses::{failure, line};

/// The status code of the answer.
pub(super) fn code(fault: Fault, is_watch: bool) -> u16 {
    match fault {
        Fault::Status(code) => code,
        Fault::ErrorEvent(code) if !is_watch => code,
        Fault::TooMany(_) => 429,
        Fault::ErrorEvent(_)
        | Fault::Nonsense
        | Fault::Garbage
        | Fault::Empty
        | Fault::Other
        | Fault::Reset
        | Fault::Silence => 200,
    }
}

/// Returns the body of the answer.
pub(super) fn body(fault: Fault, is_watch: bool) -> String {
    let words = "as the test orders";
    match fault {
        Fault::ErrorEvent(code) if is_watch => line("ERROR", &failure(code, words)) + "\n",
        Fault::Status(code) | Fault::ErrorEvent(code) => failure(code, words).to_string(),
        Fault::TooMany(seconds) => {
            let mut failure = failure(429, words);
            failure["details"] = json!({ "retryAfterSeconds": seconds });
            failure.to_string()
        }
        Fault::Garbage => "<html>502 Bad Gateway</html>\n\u{fffd}{{{\n".to_owned(),
        Fault::Nonsense if is_watch => {
            let nonsense = json!({ "metadata": { "name": 7 }, "spec": [], "status": "fine" });
            line("ADDED", &nonsense) + "\n"
        }
        Fault::Nonsense => json!({ "metadata": { "name": 7 }, "spec": [], "status": "fine" }).to_string(),
        Fault::Other => json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }).to_string(),
        Fault::Empty | Fault::Reset | Fault::Silence => String::new(),
    }
}
