//! Tells Rust code from its comments and string literals, just well enough for the tidy rules.
//! It is no parser: it knows nothing of tokens beyond where text begins and ends.

/// A source file taken apart.
pub(super) struct Lexed {
    /// The file with every comment and literal left out; a literal leaves one `"`.
    pub(super) code: String,
    pub(super) literals: Vec<Literal>,
}

/// A string literal, as written between its quotes.
pub(super) struct Literal {
    pub(super) text: String,
    pub(super) line: usize,
    /// Where its mark stands in the code.
    at: usize,
}

impl Literal {
    pub(super) fn is_first_argument_of(&self, code: &str, call: &str) -> bool {
        let before = code[..self.at].trim_end();
        before
            .strip_suffix(['(', '[', '{'])
            .is_some_and(|before| before.trim_end().ends_with(call))
    }
}

impl Lexed {
    pub(super) fn new(source: &str) -> Self {
        let mut lexed = Self {
            code: String::with_capacity(source.len()),
            literals: Vec::new(),
        };
        let mut rest = source;
        while let Some(first) = rest.chars().next() {
            let taken = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                block_comment_bytes(rest)
            } else if let Some(bytes) = char_literal_bytes(rest) {
                bytes
            } else if let Some((text, bytes)) = string(rest, &lexed.code) {
                let line = 1 + source[..source.len() - rest.len()].matches('\n').count();
                let at = lexed.code.len();
                lexed.literals.push(Literal { text, line, at });
                lexed.code.push('"');
                bytes
            } else {
                lexed.code.push(first);
                first.len_utf8()
            };
            rest = &rest[taken..];
        }
        lexed
    }
}

/// The length of a comment that may hold others.
fn block_comment_bytes(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of `'x'` or `'\…'`; a lifetime is none.
fn char_literal_bytes(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        // Past the escaped character, which may itself be a quote.
        let skipped = 1 + inside[1..].chars().next()?.len_utf8();
        return Some(1 + skipped + inside[skipped..].find('\'')? + 1);
    }
    let end = first.len_utf8();
    inside[end..].starts_with('\'').then_some(1 + end + 1)
}

/// The text and length of the string literal that begins here, plain or raw, with any prefix.
fn string(rest: &str, before: &str) -> Option<(String, usize)> {
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        // Inside a word: its last letter is no prefix. A bare quote still opens a literal.
        return rest.starts_with('"').then(|| plain(rest, 1));
    }
    let letters = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    if letters > 2 {
        return None;
    }
    let (prefix, body) = rest.split_at(letters);
    if !prefix.ends_with('r') {
        return body.starts_with('"').then(|| plain(rest, letters + 1));
    }
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inside.find(&close).unwrap_or(inside.len());
    let bytes = (rest.len() - inside.len() + end + close.len()).min(rest.len());
    Some((inside[..end].to_owned(), bytes))
}

/// A literal with escapes whose text begins at `start`.
fn plain(rest: &str, start: usize) -> (String, usize) {
    let mut escaped = false;
    for (at, c) in rest[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return (rest[start..start + at].to_owned(), start + at + 1),
            _ => {}
        }
    }
    (rest[start..].to_owned(), rest.len())
}
