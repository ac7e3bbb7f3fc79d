//! The article of an HTML page: its text, its title and who wrote it. What is around it is left out.

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};

use super::parse::{Unread, cut, parse};

/// The longest text of one node, and the longest attribute, in bytes. Writing HTML, as the library does with what it
/// finds, takes time with the square of the ampersands in either.
const RUN_BYTES_MAX: usize = 2 * 1024;

/// An article with fewer characters than this may be a miss, if the page has much more.
const ARTICLE_CHARS_MIN: usize = 200;

/// The longest title and author that are taken from a page, in characters.
const LINE_CHARS_MAX: usize = 500;

/// What was found on a page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Article {
    /// The text, with its line breaks. Empty if the page has none.
    pub text: String,
    /// The page's title.
    pub title: Option<String>,
    /// Who wrote it, as the page says.
    pub author: Option<String>,
}

/// Finds the article of a page.
///
/// # Errors
/// [`Unread`], if the page is beyond a limit. A page without an article is an [`Article`] without text.
///
/// ```
/// use hapax_intake::webpage::{Unread, article};
///
/// let page = "<title>Tea</title><nav>Home</nav><article><h1>Tea</h1><p>Water first, then leaves.</p></article>";
/// let tea = article(page)?;
/// assert_eq!(tea.title.as_deref(), Some("Tea"));
/// assert!(tea.text.contains("Water first, then leaves."));
/// assert_eq!(article(&"<div>".repeat(100_000)), Err(Unread::TooDeep));
/// # Ok::<(), Unread>(())
/// ```
pub fn article(html: &str) -> Result<Article, Unread> {
    let document = parse(html)?;
    shorten(&document);
    let whole = document.clone();
    let config = Config {
        text_mode: TextMode::Formatted,
        ..Config::default()
    };
    let found = Readability::with_document(document, None, Some(config))
        .and_then(|mut page| page.parse())
        .ok();
    let mut article = found.map_or_else(Article::default, |found| Article {
        text: found.text_content.trim().to_owned(),
        title: line(&found.title),
        author: found.byline.as_deref().and_then(line),
    });
    if article.title.is_none() {
        article.title = line(&whole.select_single("title").text());
    }
    let chars = article.text.chars().take(ARTICLE_CHARS_MIN).count();
    if chars < ARTICLE_CHARS_MIN {
        let all = all_text(&whole);
        if all.chars().count() / 4 > chars {
            article.text = all;
        }
    }
    Ok(article)
}

/// Cuts long texts into several nodes and drops long attributes, which say nothing to a reader.
fn shorten(document: &Document) {
    let nodes: Vec<_> = document.root().descendants_it().collect();
    for node in nodes {
        if node.is_text() {
            let text = node.text();
            if text.len() <= RUN_BYTES_MAX {
                continue;
            }
            let (first, mut rest) = text.split_at(cut(&text, RUN_BYTES_MAX));
            node.set_text(first);
            let mut last = node;
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cut(rest, RUN_BYTES_MAX));
                let next = document.tree.new_text(piece);
                last.insert_after(&next);
                last = next;
                rest = behind;
            }
        } else {
            for attribute in node.attrs() {
                if attribute.value.len() > RUN_BYTES_MAX {
                    node.remove_attr(&attribute.name.local);
                }
            }
        }
    }
}

/// All that a page shows.
fn all_text(document: &Document) -> String {
    for hidden in ["script", "style", "noscript", "template", "head"] {
        document.select(hidden).remove();
    }
    document.formatted_text().trim().to_owned()
}

fn line(text: &str) -> Option<String> {
    let cut: String = text
        .split_whitespace()
        .flat_map(|word| [" ", word])
        .flat_map(str::chars)
        .skip(1)
        .take(LINE_CHARS_MAX)
        .collect();
    Some(cut.trim_end().to_owned()).filter(|line| !line.is_empty())
}
