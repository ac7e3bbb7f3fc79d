//! Writes the hcj-1 form of an indexed text: keys in order, blanks dropped, strings and numbers
//! in their shortest form. It trusts the index and checks nothing again.

use super::document::Selection;
use super::index::Index;
use super::path::{Routes, descend};
use super::scan::{self, Unit, byte};
use super::sink::Sink;
use super::{number, order};

pub(super) struct Writer<'d, S> {
    text: &'d str,
    bytes: &'d [u8],
    index: &'d Index,
    sink: &'d mut S,
}

/// What the members of one object have in common.
struct Members<'s> {
    routes: &'s Routes<'s>,
    /// For the root object: names that may be left out.
    selection: Option<&'s Selection>,
    first: bool,
}

impl<'s> Members<'s> {
    fn new(routes: &'s Routes<'s>, selection: Option<&'s Selection>) -> Self {
        Self {
            routes,
            selection,
            first: true,
        }
    }
}

impl<'d, S: Sink> Writer<'d, S> {
    pub(super) fn new(text: &'d str, index: &'d Index, sink: &'d mut S) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            index,
            sink,
        }
    }

    /// Writes the selected parts of the whole document.
    pub(super) fn root(&mut self, selection: &Selection) {
        let at = self.index.root;
        let routes = selection.routes();
        if byte(self.bytes, at) == b'{' && !selection.exclude().is_empty() {
            self.object(at, Some(0), &mut Members::new(&routes, Some(selection)));
        } else {
            self.value(at, &mut Some(0), &routes);
        }
    }

    /// Writes the value at `at` and returns the offset after it. `next` is the number of the
    /// first container from `at` on, or nothing inside a clean container, whose insides
    /// are not indexed and need no sorting.
    pub(super) fn value(
        &mut self,
        at: usize,
        next: &mut Option<u32>,
        routes: &Routes<'_>,
    ) -> usize {
        let open = self.bytes[at];
        if open != b'{' && open != b'[' {
            return self.scalar(at, open);
        }
        let mut inside = None;
        if let Some(number) = *next {
            let container = self.index.container(number);
            *next = Some(container.next);
            if !container.is_clean() {
                inside = Some(number);
            } else if routes.is_empty() {
                let end = container.end as usize;
                self.sink.put(&self.bytes[at..end]);
                return end;
            }
        }
        if open == b'{' {
            self.object(at, inside, &mut Members::new(routes, None))
        } else if routes.iter().any(|route| route.is_empty()) {
            self.unordered_array(at, inside, routes)
        } else {
            self.array(at, inside, routes)
        }
    }

    fn object(&mut self, at: usize, number: Option<u32>, context: &mut Members<'_>) -> usize {
        self.sink.put(b"{");
        let container = number.map(|number| *self.index.container(number));
        let members = container
            .as_ref()
            .map_or(&[][..], |found| self.index.members(found));
        let end = if members.is_empty() {
            let mut next = number.map(|number| number + 1);
            self.each_in_text(at, |writer, key, value| {
                writer.member(key, value, &mut next, context)
            })
        } else {
            // What is not looked into is copied as it stands.
            let copies = context.selection.is_none() && context.routes.is_empty();
            for member in members {
                if copies && member.end > 0 {
                    if !std::mem::replace(&mut context.first, false) {
                        self.sink.put(b",");
                    }
                    let whole = member.key as usize..member.end as usize;
                    self.sink.put(&self.bytes[whole]);
                    continue;
                }
                let mut next = Some(member.container);
                self.member(
                    member.key as usize,
                    member.value as usize,
                    &mut next,
                    context,
                );
            }
            container.map_or(at, |found| found.end as usize)
        };
        self.sink.put(b"}");
        end
    }

    /// Calls `each` with the offsets of every key and value of an object, in the order of the
    /// text; `each` returns the offset after the value.
    fn each_in_text(
        &mut self,
        at: usize,
        mut each: impl FnMut(&mut Self, usize, usize) -> usize,
    ) -> usize {
        let mut at = scan::skip_blanks(self.bytes, at + 1);
        while self.bytes[at] != b'}' {
            let colon = scan::skip_blanks(self.bytes, scan::string_end(self.bytes, at + 1));
            let value = scan::skip_blanks(self.bytes, colon + 1);
            let end = each(self, at, value);
            at = self.after_comma(end);
        }
        at + 1
    }

    fn member(
        &mut self,
        key: usize,
        value: usize,
        next: &mut Option<u32>,
        context: &mut Members<'_>,
    ) -> usize {
        if let Some(selection) = context.selection
            && selection.excludes(&order::unescape(self.text, key))
        {
            return self.skip(value, next);
        }
        if !std::mem::replace(&mut context.first, false) {
            self.sink.put(b",");
        }
        self.string(key);
        self.sink.put(b":");
        if context.routes.is_empty() {
            return self.value(value, next, context.routes);
        }
        let name = order::unescape(self.text, key);
        let routes = descend(context.routes, |step| step.matches_name(&name));
        self.value(value, next, &routes)
    }

    fn array(&mut self, at: usize, number: Option<u32>, routes: &Routes<'_>) -> usize {
        let mut next = number.map(|number| number + 1);
        let mut at = scan::skip_blanks(self.bytes, at + 1);
        let mut place = 0;
        self.sink.put(b"[");
        while self.bytes[at] != b']' {
            if place > 0 {
                self.sink.put(b",");
            }
            let end = self.element(at, place, &mut next, routes);
            at = self.after_comma(end);
            place += 1;
        }
        self.sink.put(b"]");
        at + 1
    }

    fn element(
        &mut self,
        at: usize,
        place: usize,
        next: &mut Option<u32>,
        routes: &Routes<'_>,
    ) -> usize {
        if routes.is_empty() {
            return self.value(at, next, routes);
        }
        self.value(at, next, &descend(routes, |step| step.matches_index(place)))
    }

    /// Writes the elements into a buffer and takes them from there in the order of their bytes.
    fn unordered_array(&mut self, at: usize, number: Option<u32>, routes: &Routes<'_>) -> usize {
        let mut buffer = Vec::new();
        let mut elements = Vec::new();
        let mut next = number.map(|number| number + 1);
        let mut at = scan::skip_blanks(self.bytes, at + 1);
        while self.bytes[at] != b']' {
            let start = buffer.len();
            let mut inner = Writer::new(self.text, self.index, &mut buffer);
            let end = inner.element(at, elements.len(), &mut next, routes);
            elements.push(start..buffer.len());
            at = self.after_comma(end);
        }
        elements.sort_by(|a, b| buffer[a.clone()].cmp(&buffer[b.clone()]));
        self.sink.put(b"[");
        for (place, element) in elements.into_iter().enumerate() {
            if place > 0 {
                self.sink.put(b",");
            }
            self.sink.put(&buffer[element]);
        }
        self.sink.put(b"]");
        at + 1
    }

    /// The offset of the next key or element, or of the closing bracket.
    fn after_comma(&self, end: usize) -> usize {
        let at = scan::skip_blanks(self.bytes, end);
        if self.bytes[at] == b',' {
            scan::skip_blanks(self.bytes, at + 1)
        } else {
            at
        }
    }

    fn skip(&self, at: usize, next: &mut Option<u32>) -> usize {
        match self.bytes[at] {
            b'{' | b'[' => {
                let number = next.expect("members are left out of the root, which is indexed");
                let container = self.index.container(number);
                *next = Some(container.next);
                container.end as usize
            }
            _ => scalar_end(self.bytes, at),
        }
    }

    fn scalar(&mut self, at: usize, open: u8) -> usize {
        match open {
            b'"' => self.string(at),
            b'-' | b'0'..=b'9' => {
                let shape = scan::number(self.bytes, at).expect("the index accepted the number");
                let literal = &self.text[at..shape.end];
                if number::is_canonical(literal, &shape) {
                    self.sink.put(literal.as_bytes());
                } else {
                    number::hcj(literal, &shape, &mut |bytes| {
                        self.sink.put(bytes);
                    });
                }
                shape.end
            }
            _ => {
                let end = scalar_end(self.bytes, at);
                self.sink.put(&self.bytes[at..end]);
                end
            }
        }
    }

    #[inline]
    fn string(&mut self, at: usize) -> usize {
        let end = scan::plain_end(self.bytes, at + 1);
        if self.bytes[end] == b'"' {
            self.sink.put(&self.bytes[at..=end]);
            return end + 1;
        }
        self.escaped_string(at, end)
    }

    fn escaped_string(&mut self, start: usize, mut at: usize) -> usize {
        self.sink.put(&self.bytes[start..at]);
        while self.bytes[at] == b'\\' {
            let (unit, end) = scan::escape(self.bytes, at).expect("the index accepted the escape");
            if let Unit::Char(char) = unit {
                self.sink.put(scan::escaped(char, &mut [0; 6]));
            }
            at = scan::plain_end(self.bytes, end);
            self.sink.put(&self.bytes[end..at]);
        }
        self.sink.put(b"\"");
        at + 1
    }
}

/// The offset after a valid string, number or word.
pub(super) fn scalar_end(text: &[u8], at: usize) -> usize {
    match text[at] {
        b'"' => scan::string_end(text, at + 1),
        b't' | b'n' => at + 4,
        b'f' => at + 5,
        _ => {
            let is_part =
                |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            at + text[at..].iter().take_while(is_part).count()
        }
    }
}
