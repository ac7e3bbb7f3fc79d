//! How much a text is worth finding again: counts, flags, a score and an excerpt, for every kind of entry.
//! It measures clean text; making text clean is the business of each door.

use hapax_core::entry::{Column, Fields};
use serde::Serialize;
use serde_json::json;

use crate::link::links;
use crate::text::note;

/// The version of the rules below, kept beside what they found.
pub const VERSION: &str = "v1";

/// How many characters an excerpt has at most, before its `…`.
pub const EXCERPT_CHARS_MAX: usize = 320;

/// From here on a text with this many links is mostly links, however long it is.
const LINKS_MANY: usize = 25;
const LINK_RATIO_MAX: f64 = 0.18;
/// A text that has fewer characters than this without its links is shown with them.
const EXCERPT_BARE_CHARS_MIN: usize = 50;

/// What a text was found to be. A character is a Unicode scalar value, a word is what stands between white space, a
/// link is what [`links`] finds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Quality {
    /// Words of the clean text.
    pub clean_word_count: usize,
    /// Characters of the clean text.
    pub clean_char_count: usize,
    /// Characters of the text as extracted, where there is one.
    pub extracted_char_count: Option<usize>,
    /// Links in the clean text.
    pub link_count: usize,
    /// Links per word; 0 of an empty text.
    pub link_ratio: f64,
    /// More than 0.18 links per word, or 25 links.
    pub boilerplate_heavy: bool,
    /// Fewer than 35 words or 220 characters; of a note or a thought, 8 and 40.
    pub low_signal: bool,
    /// From 0 to 1.
    pub quality_score: f64,
    /// One line from the start of the text: at most [`EXCERPT_CHARS_MAX`] characters, then `…` if there is more.
    #[serde(skip)]
    pub excerpt: String,
}

impl Quality {
    /// Writes what was found into the promoted columns and into `metadata.retrieval`. Another excerpt than the one that
    /// was found takes its place, on one line and within the same limit; a blank one does not.
    ///
    /// ```
    /// use hapax_core::entry::{Column, Fields};
    /// use hapax_intake::quality::assess;
    ///
    /// let mut fields = Fields::new();
    /// assess("water the plants", None, "thought").put_into(&mut fields, Some("plants"));
    /// assert_eq!(fields.get(Column::RetrievalExcerpt), "plants");
    /// assert_eq!(fields.get(Column::Metadata)["retrieval"]["quality"]["clean_word_count"], 3);
    /// ```
    pub fn put_into(&self, fields: &mut Fields, excerpt_override: Option<&str>) {
        let given = excerpt_override.map(|given| first_line(given.split_whitespace()));
        let excerpt = given
            .filter(|given| !given.is_empty())
            .unwrap_or_else(|| self.excerpt.clone());
        let retrieval = json!({ "version": VERSION, "excerpt": excerpt, "quality": self });
        fields.put(Column::RetrievalExcerpt, excerpt);
        fields.put(Column::RetrievalVersion, VERSION);
        fields.put(Column::CleanWordCount, self.clean_word_count);
        fields.put(Column::CleanCharCount, self.clean_char_count);
        fields.put(Column::ExtractedCharCount, self.extracted_char_count);
        fields.put(Column::LinkCount, self.link_count);
        fields.put(Column::LinkRatio, self.link_ratio);
        fields.put(Column::BoilerplateHeavy, self.boilerplate_heavy);
        fields.put(Column::LowSignal, self.low_signal);
        fields.put(Column::QualityScore, self.quality_score);
        note(fields, &json!({ "retrieval": retrieval }));
    }
}

/// Measures a clean text, in time that grows with its length and no faster.
///
/// ```
/// use hapax_intake::quality::assess;
///
/// let note = assess("water the plants before the long weekend, please", None, "note");
/// assert_eq!((note.clean_word_count, note.low_signal), (8, false));
/// assert!(assess("water the plants", None, "note").low_signal);
/// assert!(assess(&"https://example.org/ ".repeat(25), None, "newsletter").boilerplate_heavy);
/// ```
#[must_use]
pub fn assess(
    clean_text: &str,
    extracted_char_count: Option<usize>,
    content_type: &str,
) -> Quality {
    let clean_char_count = clean_text.chars().count();
    let clean_word_count = clean_text.split_whitespace().count();
    let link_count = links(clean_text).count();
    let link_ratio = real(link_count) / real(clean_word_count.max(1));
    let boilerplate_heavy = link_ratio > LINK_RATIO_MAX || link_count >= LINKS_MANY;
    let (words_min, chars_min) = match content_type {
        "note" | "thought" => (8, 40),
        _ => (35, 220),
    };
    let low_signal = clean_word_count < words_min || clean_char_count < chars_min;
    Quality {
        clean_word_count,
        clean_char_count,
        extracted_char_count,
        link_count,
        link_ratio,
        boilerplate_heavy,
        low_signal,
        quality_score: score(
            clean_word_count,
            clean_char_count,
            boilerplate_heavy,
            low_signal,
        ),
        excerpt: excerpt(clean_text),
    }
}

/// The start of a text on one line, cut at a space.
///
/// Links are left out if at least 50 characters remain without them. A word is cut inside only if it is the first and
/// longer than an excerpt.
///
/// ```
/// use hapax_intake::quality::excerpt;
///
/// assert_eq!(excerpt(" two\n lines "), "two lines");
/// let long = excerpt(&"word ".repeat(100));
/// assert_eq!(long.chars().count(), 320);
/// assert!(long.ends_with("word…"));
/// assert_eq!(excerpt(&format!("one {}", "x".repeat(400))), "one…");
/// ```
#[must_use]
pub fn excerpt(text: &str) -> String {
    let bare = first_line(text.split_whitespace().filter_map(without_link));
    if bare.chars().count() >= EXCERPT_BARE_CHARS_MIN {
        bare
    } else {
        first_line(text.split_whitespace())
    }
}

/// Words joined by single spaces, up to the limit; the rest is not looked at.
fn first_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in words {
        let space = usize::from(chars > 0);
        let room = EXCERPT_CHARS_MAX.saturating_sub(chars + space);
        // One character more than there is room for is enough to know that the word does not fit.
        let wanted = word.chars().take(room + 1).count();
        if wanted > room {
            if line.is_empty() {
                line.extend(word.chars().take(room));
            }
            line.push('…');
            break;
        }
        line.extend((space > 0).then_some(' '));
        line.push_str(word);
        chars += space + wanted;
    }
    line
}

/// What stands in a word before its link, if that says anything.
fn without_link(word: &str) -> Option<&str> {
    let Some(link) = links(word).next() else {
        return Some(word);
    };
    let before = word[..link.start].trim_end_matches(['(', '<', '[', '{', '"', '\'', '=']);
    before.contains(char::is_alphanumeric).then_some(before)
}

fn score(words: usize, chars: usize, boilerplate_heavy: bool, low_signal: bool) -> f64 {
    let mut score = 0.6 * (real(words) / 120.0).min(1.0) + 0.4 * (real(chars) / 1_200.0).min(1.0);
    if boilerplate_heavy {
        score -= 0.25;
    }
    if low_signal {
        score -= 0.35;
    }
    score.clamp(0.0, 1.0)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a text of 2^53 words does not fit into memory"
)]
fn real(count: usize) -> f64 {
    count as f64
}
