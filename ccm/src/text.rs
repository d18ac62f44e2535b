//! Texts that the API server bounds.

/// Cut to at most `bytes`, at a character boundary.
pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
