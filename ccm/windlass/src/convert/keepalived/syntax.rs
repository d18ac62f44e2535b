//! The syntax of `keepalived.conf`: lines of words, and blocks in braces (keepalived.conf(5)).

/// Blocks within blocks are followed this deep.
const MAX_DEPTH: usize = 16;

/// A line, and the block that it begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of its line, from 1.
    pub(super) line: usize,
    /// Never empty.
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Self>,
}

impl Entry {
    /// Its first word.
    pub(super) fn keyword(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The word behind its first.
    pub(super) fn value(&self) -> Option<&str> {
        self.words.get(1).map(String::as_str)
    }

    /// The value of the last entry of its block with this keyword: the one that counts.
    pub(super) fn last(&self, keyword: &str) -> Option<&str> {
        self.block.iter().rev().filter(|entry| entry.keyword() == keyword).find_map(Self::value)
    }

    /// The entries of its block with this keyword.
    pub(super) fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Self> {
        self.block.iter().filter(move |entry| entry.keyword() == keyword)
    }
}

/// The entries of a text, and what is wrong with it.
pub(super) fn entries(text: &str) -> (Vec<Entry>, Vec<String>) {
    let mut errors = Vec::new();
    // The innermost open block is the last; the first is the file.
    let mut open = vec![Entry::default()];
    for (index, text) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = index + 1;
        let mut current = Entry { line, ..Entry::default() };
        for token in tokens(text) {
            match token {
                Token::Word(word) => current.words.push(word),
                Token::Open => {
                    let before = std::mem::replace(&mut current, Entry { line, ..Entry::default() });
                    // A brace on a line of its own is of the entry before.
                    let begun = if before.words.is_empty() {
                        open.last_mut().and_then(|block| block.block.pop())
                    } else {
                        Some(before)
                    };
                    match begun {
                        Some(begun) if open.len() < MAX_DEPTH => open.push(begun),
                        Some(_) => {
                            errors.push(format!(
                                "line {line}: blocks are nested too deeply: the rest was not read"
                            ));
                            return (closed(open), errors);
                        }
                        None => {
                            errors.push(format!("line {line}: a block without a keyword begins: correct it"));
                        }
                    }
                }
                Token::Close => {
                    push(&mut open, std::mem::replace(&mut current, Entry { line, ..Entry::default() }));
                    match open.pop() {
                        Some(block) if !open.is_empty() => push(&mut open, block),
                        Some(file) => {
                            open.push(file);
                            errors.push(format!(
                                "line {line}: a block ends that did not begin: take the brace out"
                            ));
                        }
                        None => {}
                    }
                }
            }
        }
        push(&mut open, current);
    }
    if let [_, .., unclosed] = &open[..] {
        let Entry { line, words, .. } = unclosed;
        errors.push(format!("line {line}: the block {:?} has no end: close it", words.join(" ")));
    }
    (closed(open), errors)
}

fn push(open: &mut [Entry], entry: Entry) {
    if let Some(block) = open.last_mut().filter(|_| !entry.words.is_empty()) {
        block.block.push(entry);
    }
}

/// The file, with all that is open in it closed.
fn closed(mut open: Vec<Entry>) -> Vec<Entry> {
    while open.len() > 1 {
        if let Some(block) = open.pop() {
            push(&mut open, block);
        }
    }
    open.pop().map(|file| file.block).unwrap_or_default()
}

enum Token {
    Word(String),
    Open,
    Close,
}

/// The tokens of a line. `#` and `!` begin a comment, quotes hold blanks together.
fn tokens(line: &str) -> Vec<Token> {
    let (mut tokens, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#' | '!') => break,
            (None, '{' | '}') => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(if c == '{' { Token::Open } else { Token::Close });
            }
            (None, c) if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            (Some(_) | None, c) => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}
