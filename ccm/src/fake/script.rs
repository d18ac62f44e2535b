//! The errors and delays that a test orders.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::Method;
use crate::provider::ProviderError;

#[derive(Debug, Default)]
pub(super) struct FaultScript {
    next: HashMap<Method, VecDeque<ProviderError>>,
    always: HashMap<(Method, String), ProviderError>,
    delays: HashMap<Method, Duration>,
    delays_on: HashMap<(Method, String), Duration>,
}

impl FaultScript {
    pub(super) fn fail_next(&mut self, method: Method, errors: impl IntoIterator<Item = ProviderError>) {
        self.next.entry(method).or_default().extend(errors);
    }

    pub(super) fn fail_on(&mut self, method: Method, subject: &str, error: Option<ProviderError>) {
        let key = (method, subject.to_owned());
        match error {
            Some(error) => self.always.insert(key, error),
            None => self.always.remove(&key),
        };
    }

    pub(super) fn delay(&mut self, method: Method, time: Duration) {
        self.delays.insert(method, time);
    }

    pub(super) fn delay_on(&mut self, method: Method, subject: &str, time: Duration) {
        self.delays_on.insert((method, subject.to_owned()), time);
    }

    pub(super) fn delay_of(&self, method: Method, subject: &str) -> Duration {
        let special = self.delays_on.get(&(method, subject.to_owned()));
        special.or_else(|| self.delays.get(&method)).copied().unwrap_or_default()
    }

    /// The error of this call; one that was meant for the next call is used up.
    pub(super) fn error_of(&mut self, method: Method, subject: &str) -> Option<ProviderError> {
        let always = self.always.get(&(method, subject.to_owned())).cloned();
        always.or_else(|| self.next.get_mut(&method)?.pop_front())
    }
}
