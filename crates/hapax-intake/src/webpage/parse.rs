//! HTML parsed piece by piece, as a browser without scripts does, and given up when it would take too much.
//!
//! Three things can make a small page expensive: depth, since the parser walks up the open elements; formatting that is
//! opened again in every paragraph, which multiplies nodes; and attributes, which are compared with each other. The
//! parser itself is asked for all three after every piece, so that no spelling of the page can hide them.

use std::cell::Cell;

use dom_query::{Document, NodeId};
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{Tracer, TreeBuilder, TreeBuilderOpts};

/// The longest page that is read, in bytes.
pub const HTML_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How many elements may be open at one place of a page. Browsers flatten what is deeper than 512.
pub const NESTED_MAX: usize = 500;

/// How many nodes a page may be made of: elements, texts and comments.
pub const NODES_MAX: usize = 250_000;

/// How many comparisons the attributes of a page may take: as many as 20 000 attributes of one element.
const COMPARISONS_MAX: usize = 20_000 * 20_000;

/// What it costs to add an attribute to `html` or `body`, for each that they have: the names are gathered anew.
const OUTER_WEIGHT: usize = 16;

/// How much of a page is parsed before the parser is looked at. A piece can open a third as many elements.
const PIECE_BYTES: usize = 1024;

/// Why a page is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unread {
    /// It is longer than [`HTML_BYTES_MAX`].
    #[error("is longer than the {HTML_BYTES_MAX} bytes allowed; send its text instead")]
    TooLong,
    /// It is nested deeper than [`NESTED_MAX`].
    #[error("is nested deeper than the {NESTED_MAX} elements allowed; send its text instead")]
    TooDeep,
    /// It is made of more than [`NODES_MAX`].
    #[error("is made of more than the {NODES_MAX} nodes allowed; send its text instead")]
    TooMany,
    /// An element of it has, or may have, many thousand attributes. A comment with more than 20 000 spaces looks like
    /// one while it is read.
    #[error("has too many attributes, or a very long comment; send its text instead")]
    TooManyAttributes,
}

pub(super) fn parse(html: &str) -> Result<Document, Unread> {
    if html.len() > HTML_BYTES_MAX {
        return Err(Unread::TooLong);
    }
    let options = TreeBuilderOpts {
        scripting_enabled: false,
        ..TreeBuilderOpts::default()
    };
    let watched = Watched {
        builder: TreeBuilder::new(Document::default(), options),
        comparisons: Cell::new(0),
        pending: Cell::new(0),
        outer: Cell::new(0),
    };
    let tokenizer = Tokenizer::new(watched, TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cut(rest, PIECE_BYTES));
        tokenizer.sink.announce(piece);
        input.push_back(StrTendril::from_slice(piece));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        tokenizer.sink.check()?;
        rest = behind;
    }
    tokenizer.end();
    Ok(tokenizer.sink.builder.sink)
}

/// The last place within so many bytes where a character ends.
pub(super) fn cut(text: &str, bytes_max: usize) -> usize {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// The tree builder, with a count of what attributes cost.
struct Watched {
    builder: TreeBuilder<NodeId, Document>,
    comparisons: Cell<usize>,
    /// At most so many attributes has the tag that is not at its end yet: as many as there were spaces and faults.
    pending: Cell<usize>,
    /// The attributes that `html` and `body` tags have added up to.
    outer: Cell<usize>,
}

impl Watched {
    /// Before a piece is parsed. Attributes without a space between them are a fault each, which is counted later.
    fn announce(&self, piece: &str) {
        let spaces = piece.bytes().filter(u8::is_ascii_whitespace).count();
        self.pending.set(self.pending.get() + spaces);
    }

    fn check(&self) -> Result<(), Unread> {
        // Faults of the page are not asked for; kept, they would outgrow it.
        self.builder.sink.errors.borrow_mut().clear();
        let held = Held::default();
        self.builder.trace_handles(&held);
        if held.0.get() > NESTED_MAX {
            return Err(Unread::TooDeep);
        }
        if self.builder.sink.tree.len() > NODES_MAX {
            return Err(Unread::TooMany);
        }
        let pending = self.pending.get();
        if self
            .comparisons
            .get()
            .saturating_add(pending.saturating_mul(pending))
            > COMPARISONS_MAX
        {
            return Err(Unread::TooManyAttributes);
        }
        Ok(())
    }

    fn count(&self, tag: &Tag) {
        let attributes = tag.attrs.len();
        let mut comparisons = attributes.saturating_mul(attributes);
        if matches!(&*tag.name, "html" | "body") {
            self.outer.set(self.outer.get() + attributes);
            comparisons = comparisons.saturating_add(self.outer.get().saturating_mul(OUTER_WEIGHT));
        }
        let comparisons = self.comparisons.get().saturating_add(comparisons);
        self.comparisons.set(comparisons);
    }
}

impl TokenSink for Watched {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        match &token {
            Token::ParseError(_) => self.pending.set(self.pending.get() + 1),
            Token::TagToken(tag) => {
                self.count(tag);
                self.pending.set(0);
            }
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::EOFToken => self.pending.set(0),
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder
            .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Counts what the parser holds: the open elements, and the formatting it will open again.
#[derive(Default)]
struct Held(Cell<usize>);

impl Tracer for Held {
    type Handle = NodeId;

    fn trace_handle(&self, _node: &NodeId) {
        self.0.set(self.0.get() + 1);
    }
}
