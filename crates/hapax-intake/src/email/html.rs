//! The text of an HTML mail, in one pass over its tags. It builds no tree, so that no nesting can hurt it.

use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::html::add_html_token;

/// How many `>` a line gets at most, however deep its quotation is nested.
const QUOTES_MAX: usize = 8;
const ENTITY_BYTES_MAX: usize = 40;

/// What a tag does to the line that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    Nothing,
    Space,
    Line,
    Paragraph,
}

/// Whether a text is HTML rather than plain: it begins with a tag that mails begin with, and closes one.
pub(super) fn looks_like(text: &str) -> bool {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let Some(inside) = start.strip_prefix('<') else {
        return false;
    };
    let name_len = inside
        .bytes()
        .take(20)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"!?".contains(byte))
        .count();
    let name = inside[..name_len].to_ascii_lowercase();
    let is_known = matches!(
        name.as_str(),
        "!doctype" | "?xml" | "html" | "head" | "body" | "meta" | "style" | "title"
    ) || matches!(
        name.as_str(),
        "a" | "b" | "center" | "em" | "font" | "i" | "img" | "span" | "strong" | "u"
    ) || break_of(&name) != Break::Nothing;
    let ends_name = inside[name_len..].starts_with([' ', '>', '/', '\t', '\r', '\n']);
    is_known && ends_name && (text.contains("</") || text.contains("/>") || name == "br")
}

/// The charset that a page names near its start, for a mail that names none.
pub(super) fn charset(html: &[u8]) -> Option<String> {
    const NAME: &str = "charset=";
    let head = String::from_utf8_lossy(&html[..html.len().min(2_048)]).to_ascii_lowercase();
    let (_, after) = head.split_once(NAME)?;
    let is_named = |c: &char| c.is_ascii_alphanumeric() || "-_.:".contains(*c);
    let name = after.trim_start_matches(['"', '\'']).chars();
    Some(name.take(40).take_while(is_named).collect()).filter(|name: &String| !name.is_empty())
}

/// The text of HTML, a line for each block. Quoted mails inside it get their `>`.
pub(super) fn to_text(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    let mut quotes_off = false;
    let mut endless: Vec<&'static str> = Vec::new();
    while let Some(start) = memchr::memchr(b'<', rest.as_bytes()) {
        page.text(&rest[..start]);
        rest = &rest[start..];
        if let Some(inside) = rest.strip_prefix("<!--") {
            let end = if endless.contains(&"--") {
                None
            } else {
                inside.find("-->")
            };
            if end.is_none() && !endless.contains(&"--") {
                endless.push("--");
            }
            rest = end.map_or(inside, |end| &inside[end + 3..]);
            continue;
        }
        if !rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            page.text("<");
            rest = &rest[1..];
            continue;
        }
        let mut end = if quotes_off { None } else { tag_end(rest) };
        if end.is_none() {
            quotes_off = true;
            end = memchr::memchr(b'>', rest.as_bytes());
        }
        let Some(end) = end else {
            // Nothing after this is a tag.
            break;
        };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        page.tag(tag);
        if let Some(name) = ["script", "style", "title", "template"]
            .into_iter()
            .find(|name| is_tag(tag, name))
            && !endless.contains(&name)
        {
            match closing(rest, name) {
                Some(after) => rest = &rest[after..],
                None => endless.push(name),
            }
        }
    }
    page.text(rest);
    page.finish()
}

/// Where the tag at the start of `text` ends, a `>` in a quoted value not counted.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') if before == b'=' => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    None
}

fn is_tag(tag: &str, name: &str) -> bool {
    let head = tag.get(..name.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(name))
        && !tag[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Where the text goes on behind `</name>`.
fn closing(text: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(&text.as_bytes()[from..], b"</") {
        let at = from + found + 2;
        if is_tag(&text[at..], name) {
            return memchr::memchr(b'>', &text.as_bytes()[at..]).map(|end| at + end + 1);
        }
        from = at;
    }
    None
}

fn break_of(name: &str) -> Break {
    match name {
        "td" | "th" => Break::Space,
        "br" | "div" | "tr" | "li" | "dt" | "dd" | "center" | "address" | "option" | "caption" => {
            Break::Line
        }
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" | "ul" | "ol" | "dl"
        | "blockquote" | "pre" | "hr" | "section" | "article" | "header" | "footer" | "main"
        | "nav" | "aside" | "form" | "figure" => Break::Paragraph,
        _ => Break::Nothing,
    }
}

/// The text as it grows.
#[derive(Default)]
struct Page {
    out: String,
    pending: Option<Break>,
    /// For each open blockquote, whether it quotes a mail.
    quotes: Vec<bool>,
    quoted: usize,
    preformatted: usize,
    starts_item: bool,
}

impl Page {
    fn tag(&mut self, tag: &str) {
        let (closes, inside) = match tag.strip_prefix('/') {
            Some(inside) => (true, inside),
            None => (false, tag),
        };
        let len = inside
            .bytes()
            .take(20)
            .take_while(u8::is_ascii_alphanumeric)
            .count();
        let name = inside[..len].to_ascii_lowercase();
        if name == "br" && self.pending == Some(Break::Line) {
            self.pending = Some(Break::Paragraph);
        }
        self.want(break_of(&name));
        match (name.as_str(), closes) {
            ("blockquote", false) => {
                let attributes = super::cut(&inside[len..], 1_000).to_ascii_lowercase();
                // Some programs say who wrote it, and leave the rest to the indentation.
                let is_said = self.out.trim_end().ends_with(">:");
                let quotes = is_said || attributes.contains("cite") || attributes.contains("quote");
                self.quotes.push(quotes);
                self.quoted += usize::from(quotes);
            }
            ("blockquote", true) => self.quoted -= usize::from(self.quotes.pop().unwrap_or(false)),
            ("pre", false) => self.preformatted += 1,
            ("pre", true) => self.preformatted = self.preformatted.saturating_sub(1),
            ("li", false) => self.starts_item = true,
            _ => {}
        }
    }

    fn want(&mut self, wanted: Break) {
        let rank = |kind: Break| kind as u8;
        if wanted != Break::Nothing
            && self
                .pending
                .is_none_or(|pending| rank(pending) < rank(wanted))
        {
            self.pending = Some(wanted);
        }
    }

    fn text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let amp = memchr::memchr(b'&', rest.as_bytes()).unwrap_or(rest.len());
            self.plain(&rest[..amp]);
            rest = &rest[amp..];
            if rest.is_empty() {
                return;
            }
            let reach = &rest.as_bytes()[..rest.len().min(ENTITY_BYTES_MAX)];
            let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
            let len = 1 + reach[1..].iter().take_while(|byte| is_inside(byte)).count();
            if reach.get(len) == Some(&b';') {
                let mut named = String::new();
                add_html_token(&mut named, &reach[..=len], false);
                self.plain(&of_windows(named));
                rest = &rest[len + 1..];
            } else {
                self.plain("&");
                rest = &rest[1..];
            }
        }
    }

    fn plain(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                // They pad the preview line of newsletters, and nobody sees them.
                '\u{ad}' | '\u{34f}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => {}
                '\n' if self.preformatted > 0 => self.want_line(),
                c if c.is_whitespace() && self.preformatted > 0 && self.pending.is_none() => {
                    self.out.push(c);
                }
                c if c.is_whitespace() => self.want(Break::Space),
                c => {
                    self.settle();
                    self.out.push(c);
                }
            }
        }
    }

    /// A line end of preformatted text: two of them are an empty line.
    fn want_line(&mut self) {
        match self.pending {
            Some(Break::Line) => self.pending = Some(Break::Paragraph),
            _ => self.want(Break::Line),
        }
    }

    /// Writes what is due before the next character.
    fn settle(&mut self) {
        let pending = self.pending.take();
        let at_start = self.out.is_empty();
        match pending {
            Some(Break::Space) if !at_start => self.out.push(' '),
            Some(Break::Line) if !at_start => self.out.push('\n'),
            Some(Break::Paragraph) if !at_start => self.out.push_str("\n\n"),
            _ => {}
        }
        if at_start || matches!(pending, Some(Break::Line | Break::Paragraph)) {
            for _ in 0..self.quoted.min(QUOTES_MAX) {
                self.out.push_str("> ");
            }
            if std::mem::take(&mut self.starts_item) {
                self.out.push_str("* ");
            }
        }
    }

    fn finish(self) -> String {
        self.out
    }
}

/// A number that means a character of windows-1252, as pages used to write it.
fn of_windows(named: String) -> String {
    let mut chars = named.chars();
    match (chars.next(), chars.next()) {
        (Some(c @ '\u{80}'..='\u{9f}'), None) => {
            let byte = u8::try_from(u32::from(c)).unwrap_or(b'?');
            charset_decoder(b"windows-1252").map_or(named, |decode| decode(&[byte]))
        }
        _ => named,
    }
}
