//! Steps through the values of an indexed document in the order of its text, for the diff.
//! It needs a document with every container in its index, and decodes nothing but names.

use std::borrow::Cow;

use super::document::{Document, Selection};
use super::order;
use super::path::Routes;
use super::scan;
use super::sink::Sink;
use super::write::{Writer, scalar_end};

/// A value inside a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// Offset of the value.
    at: u32,
    /// Number of the first container from there on.
    container: u32,
}

impl Node {
    fn new(at: usize, container: u32) -> Self {
        let at = u32::try_from(at).expect("texts of 4 GiB and more were refused before");
        Self { at, container }
    }

    const fn at(self) -> usize {
        self.at as usize
    }
}

impl<'a> Document<'a> {
    pub(crate) fn root_node(&self) -> Node {
        Node::new(self.index.root, 0)
    }

    /// The first byte of the value tells its type.
    pub(crate) fn open(&self, node: Node) -> u8 {
        self.text.as_bytes()[node.at()]
    }

    /// The text of the value as it was sent.
    pub(crate) fn slice(&self, node: Node) -> &'a str {
        &self.text[node.at()..self.after(node).at()]
    }

    /// The content of a string.
    pub(crate) fn string(&self, node: Node) -> Cow<'a, str> {
        order::unescape(self.text, node.at())
    }

    /// Writes the hcj-1 form of one value.
    pub(crate) fn write_node(&self, node: Node, routes: &Routes<'_>, sink: &mut impl Sink) {
        Writer::new(self.text, &self.index, sink).value(
            node.at(),
            &mut Some(node.container),
            routes,
        );
    }

    /// The members of an object in the order of the text.
    pub(crate) fn members(&self, object: Node) -> Vec<(Cow<'a, str>, Node)> {
        let bytes = self.text.as_bytes();
        let mut members = Vec::new();
        let mut container = object.container + 1;
        let mut at = scan::skip_blanks(bytes, object.at() + 1);
        while bytes[at] != b'}' {
            let key = order::unescape(self.text, at);
            let colon = scan::skip_blanks(bytes, scan::string_end(bytes, at + 1));
            let node = Node::new(scan::skip_blanks(bytes, colon + 1), container);
            members.push((key, node));
            (at, container) = self.step(node);
        }
        members
    }

    /// The elements of an array.
    pub(crate) fn elements(&self, array: Node) -> Vec<Node> {
        let bytes = self.text.as_bytes();
        let mut elements = Vec::new();
        let mut container = array.container + 1;
        let mut at = scan::skip_blanks(bytes, array.at() + 1);
        while bytes[at] != b']' {
            let node = Node::new(at, container);
            elements.push(node);
            (at, container) = self.step(node);
        }
        elements
    }

    /// Goes past the value, the comma and the blanks.
    fn step(&self, node: Node) -> (usize, u32) {
        let bytes = self.text.as_bytes();
        let after = self.after(node);
        let end = scan::skip_blanks(bytes, after.at());
        let at = if bytes[end] == b',' {
            scan::skip_blanks(bytes, end + 1)
        } else {
            end
        };
        (at, after.container)
    }

    /// The place right after the value.
    fn after(&self, node: Node) -> Node {
        if matches!(self.open(node), b'{' | b'[') {
            let container = self.index.container(node.container);
            return Node {
                at: container.end,
                container: container.next,
            };
        }
        Node::new(scalar_end(self.text.as_bytes(), node.at()), node.container)
    }
}

impl Selection {
    /// The unordered paths as steps.
    pub(crate) fn routes(&self) -> Routes<'_> {
        self.unordered().iter().map(super::Path::steps).collect()
    }
}
