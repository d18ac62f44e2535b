//! The syntax of `keepalived.conf`: lines of words, and blocks in braces (keepalived.conf(5)).

/// Blocks within blocks are followed this deep.
const MAX_DEPTH: usize = 16;

use std::cell::Cell;

/// A line, and the block that it begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of its line, from 1.
    pub(super) line: usize,
    /// Never empty.
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Self>,
    /// True once it was converted, or reported in its own words.
    read: Cell<bool>,
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
        let entries = self.block.iter().filter(|entry| entry.keyword() == keyword);
        entries.inspect(|entry| entry.mark()).filter_map(Self::value).last()
    }

    /// The entries of its block with this keyword, which count as read.
    pub(super) fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Self> {
        self.peek(keyword).inspect(|entry| entry.mark())
    }

    /// The entries of its block with this keyword.
    pub(super) fn peek<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Self> {
        self.block.iter().filter(move |entry| entry.keyword() == keyword)
    }

    /// True if its block has an entry with this keyword, which counts as read.
    pub(super) fn has(&self, keyword: &str) -> bool {
        self.all(keyword).count() > 0
    }

    /// Marks it as read.
    pub(super) fn mark(&self) {
        self.read.set(true);
    }

    pub(super) const fn is_read(&self) -> bool {
        self.read.get()
    }
}

/// The entries of a text, and what is wrong with it.
pub(super) fn entries(text: &str) -> (Vec<Entry>, Vec<String>) {
    let mut errors = Vec::new();
    // The innermost open block is the last; the first is the file.
    let mut open = vec![Entry::default()];
    for (line, text) in lines(text) {
        let mut current = Entry { line, ..Entry::default() };
        for token in tokens(&text) {
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
                                "line {line}: blocks are nested too deeply, so the rest was not read: correct the braces"
                            ));
                            return (closed(open), errors);
                        }
                        None => {
                            errors.push(format!(
                                "line {line}: a block begins without a keyword: add the keyword"
                            ));
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
                                "line {line}: a closing brace has no opening brace: remove it"
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
        errors.push(format!("line {line}: the block {:?} has no closing brace: add it", words.join(" ")));
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

/// The lines with their numbers, without comments; one that ends with `\` goes on in the next.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = without_comment(line).trim_end();
        let (line, continues) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        match lines.last_mut() {
            Some((_, before)) if goes_on => {
                before.push(' ');
                before.push_str(line);
            }
            Some(_) | None => lines.push((index + 1, line.to_owned())),
        }
        goes_on = continues;
    }
    lines
}

/// A line up to `#` or `!`, but for those in quotes and templates.
fn without_comment(line: &str) -> &str {
    let mut quote = None::<char>;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#' | '!') => return &line[..at],
            (Some(_) | None, _) => {}
        }
    }
    line
}

/// The tokens of a line without comments. Quotes and the braces of templates hold blanks together.
fn tokens(line: &str) -> Vec<Token> {
    let (mut tokens, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(template) = template(rest).filter(|_| quote.is_none()) {
            word.get_or_insert_default().push_str(template);
            rest = &rest[template.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
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

/// The placeholder that a text begins with.
fn template(text: &str) -> Option<&str> {
    let end = match text {
        text if text.starts_with("{{") => "}}",
        text if text.starts_with("${") => "}",
        _ => return None,
    };
    text.find(end).map(|at| &text[..at + end.len()])
}
