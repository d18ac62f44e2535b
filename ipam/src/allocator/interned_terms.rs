//! Terms that several owners have, kept once.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Terms;

/// Terms in use, each once: most Services have the same as many others. Saves memory; does not record the holders of the
/// terms, so that any two are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct InternedTerms(HashSet<Arc<Terms>>);

impl PartialEq for InternedTerms {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for InternedTerms {}

impl InternedTerms {
    /// `terms` as they are kept.
    pub(super) fn intern(&mut self, terms: &Terms) -> Arc<Terms> {
        if let Some(known) = self.0.get(terms) {
            return Arc::clone(known);
        }
        let new = Arc::new(terms.clone());
        self.0.insert(Arc::clone(&new));
        new
    }

    /// An owner has `terms` no more. If none has them, only the caller's copy and this one's are left; the copies of a
    /// clone of the whole allocator count as well, so that its terms may stay longer.
    pub(super) fn release(&mut self, terms: &Arc<Terms>) {
        if Arc::strong_count(terms) == 2 {
            self.0.remove(terms);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
