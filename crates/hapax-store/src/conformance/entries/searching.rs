//! Searching: every word has to be there, no character of a search is an operator, and the order is as asked.

use std::fmt::Write;
use std::time::Duration;

use hapax_core::entry::{Incoming, Search, Sort, Target};
use hapax_core::{Kind, Time};
use serde_json::json;

use super::subject::{EntrySubject, TENANT, bare, draft, read, thought, title, with};

async fn insert(subject: &EntrySubject, title: &str, text: &str) {
    subject
        .insert(with(bare(title), json!({"clean_text": text})))
        .await;
}

/// All words have to be there, in the title, the author or the clean text, in any order.
pub async fn all_words_have_to_be_there(subject: &EntrySubject) {
    insert(subject, "one", "green tea from a small garden").await;
    insert(subject, "two", "black tea").await;
    let author = json!({"title": "three", "author": "Tea Garden", "clean_text": "nothing"});
    subject.insert(with(bare("three"), author)).await;
    insert(subject, "tea house", "a garden behind it").await;

    assert_eq!(
        subject.found("tea").await,
        ["one", "tea house", "three", "two"]
    );
    assert_eq!(
        subject.found("garden tea").await,
        ["one", "tea house", "three"]
    );
    assert_eq!(subject.found("tea garden small").await, ["one"]);
    assert_eq!(subject.found("tea coffee").await, [""; 0]);
    assert_eq!(subject.found("  tea \n\t black ").await, ["two"]);
}

/// What is not in these columns is not found by its words.
pub async fn other_columns_are_not_searched(subject: &EntrySubject) {
    let hidden = json!({"capture_text": "hidden", "metadata": {"hidden": "hidden"}, "url": "https://hidden.example",
                        "gist": "hidden", "keywords": ["hidden"]});
    subject.insert(with(bare("tea"), hidden)).await;
    assert_eq!(subject.found("hidden").await, [""; 0]);
    assert_eq!(subject.found("tea").await, ["tea"]);
}

/// Case does not matter, in any alphabet.
pub async fn case_does_not_matter(subject: &EntrySubject) {
    insert(subject, "one", "Green TEA").await;
    insert(subject, "two", "Чай и ЛИМОН").await;
    for words in ["green tea", "GREEN", "Tea"] {
        assert_eq!(subject.found(words).await, ["one"], "{words}");
    }
    for words in ["чай", "Чай лимон", "ЧАЙ ЛиМоН"] {
        assert_eq!(subject.found(words).await, ["two"], "{words}");
    }
}

/// Words beside emoji, punctuation and broken bytes' replacement characters are found.
pub async fn words_beside_anything_are_found(subject: &EntrySubject) {
    insert(subject, "one", "🙂чай🙂, (зелёный)! \u{fffd}сад\u{fffd}").await;
    insert(subject, "two", "日本 茶 tea/coffee—cake…").await;
    for words in ["чай", "зелёный", "сад", "чай 🙂", "🙂 чай", "«чай»"]
    {
        assert_eq!(subject.found(words).await, ["one"], "{words}");
    }
    for words in ["tea", "coffee", "cake", "日本", "茶", "tea, cake"] {
        assert_eq!(subject.found(words).await, ["two"], "{words}");
    }
}

/// No character of a search is an operator: each is text, and none fails.
pub async fn no_character_is_an_operator(subject: &EntrySubject) {
    insert(subject, "one", "green tea").await;
    insert(subject, "two", "not near or and tea").await;
    for words in [
        "\"",
        "\"\"",
        "'",
        "\"tea",
        "tea\"",
        "'tea'",
        "tea*",
        "*tea",
        "te*",
        "-tea",
        "!tea",
        "+tea",
        "^tea",
        "tea:green",
        "title:tea",
        "title : tea",
        "(tea",
        "tea)",
        "(tea) | (green)",
        "tea & green",
        "tea | nothing",
        "<-> tea",
        "tea <-> green",
        "NEAR(tea green)",
        "tea NEAR/2 green",
        "green AND tea",
        "tea OR nothing",
        "NOT nothing",
        "tea AND",
        "OR",
        "{title} : tea",
        "tea;",
        "tea--",
        "tea /* x",
        "tea\\",
        "\\tea",
        "\\",
        "%",
        "_",
        "te_",
        "tea%",
        "$1",
        "?1",
        "tea ~ green",
        "[tea]",
        "tea@green",
        "tea\u{0}green",
        "\u{0}",
        "a\u{0}\"b",
        "tea:*",
        "tea:A",
        "'); DROP TABLE entries; --",
        "http://tea/green?x=1&y=2",
        "tea=green",
    ] {
        for sort in [Sort::Best, Sort::Newest] {
            subject.found_by(words, sort, None, 50).await;
        }
    }
    for words in [
        "tea OR nothing",
        "tea | nothing",
        "NOT nothing",
        "tea NOT green",
        "te*",
        "-tea -green nothing",
    ] {
        let found = subject.found(words).await;
        assert_eq!(found, [""; 0], "{words}");
    }
    for words in [
        "\"green\"",
        "green\"",
        "'green'",
        "*green*",
        "-green",
        "green:",
        "(green)",
    ] {
        assert_eq!(subject.found(words).await, ["one"], "{words}");
    }
    for words in ["near tea", "NOT tea", "tea OR", "and or not"] {
        assert_eq!(subject.found(words).await, ["two"], "{words}");
    }
}

/// A search without a word finds nothing.
pub async fn without_a_word_nothing_is_found(subject: &EntrySubject) {
    insert(subject, "one", "tea").await;
    for words in ["", " ", "\n\t", "*", "--", "🙂", "\"\" ''", "\u{0}"] {
        assert_eq!(subject.found(words).await, [""; 0], "{words:?}");
    }
}

/// Without words everything is found, the newest first.
pub async fn the_newest_come_first(subject: &EntrySubject) {
    let at = |seconds: i64, title: &str| {
        let mut draft = read(&bare(title)).expect("it is an entry");
        draft.created_at = Some(Time::from_ms(seconds * 1000));
        Incoming::Insert(draft)
    };
    // Two of the same time come by their number, the later first.
    let batch = vec![at(50, "b"), at(10, "d"), at(50, "a"), at(20, "c")];
    subject.write(batch).await;
    let everything = async |sort: Sort, limit: usize| -> Vec<String> {
        let search = Search {
            words: None,
            source: None,
            since: None,
            before: None,
            sort,
            limit,
        };
        let found = subject
            .catalog
            .search_entries(TENANT, Target::Active, search)
            .await;
        found
            .expect("the store answers")
            .iter()
            .map(title)
            .collect()
    };
    assert_eq!(everything(Sort::Newest, 50).await, ["a", "b", "c", "d"]);
    assert_eq!(everything(Sort::Best, 50).await, ["a", "b", "c", "d"]);
    assert_eq!(everything(Sort::Newest, 2).await, ["a", "b"]);
    assert!(everything(Sort::Newest, 0).await.is_empty());
}

/// Pages of all, of one source, of words, and of both follow each other; two of the same time too.
pub async fn entries_page_by_source_and_words_without_gap(subject: &EntrySubject) {
    let at = |seconds: i64, source: &str, title: &str| {
        let mut entry = bare(title);
        entry["source"] = source.into();
        let mut draft = read(&entry).expect("it is an entry");
        draft.created_at = Some(Time::from_ms(seconds * 1000));
        Incoming::Insert(draft)
    };
    let batch = vec![
        at(10, "web", "tea one"),
        at(20, "mail", "tea two"),
        at(20, "web", "tea three"),
        at(20, "web", "milk four"),
        at(30, "mail", "tea five"),
    ];
    subject.write(batch).await;
    let listed = async |words: Option<&str>, source: Option<&str>, limit: usize| {
        let (mut titles, mut before): (Vec<String>, _) = (Vec::new(), None);
        loop {
            let search = Search {
                words: words.map(str::to_owned),
                source: source.map(str::to_owned),
                since: None,
                before,
                sort: Sort::Newest,
                limit,
            };
            let found = subject
                .catalog
                .search_entries(TENANT, Target::Active, search);
            let found = found.await.expect("the store answers");
            let Some(last) = found.last() else {
                return titles;
            };
            before = Some((last.created_at, last.entry_id));
            titles.extend(found.iter().map(title));
        }
    };
    for limit in [1, 2, 50] {
        assert_eq!(
            listed(None, None, limit).await,
            ["tea five", "milk four", "tea three", "tea two", "tea one"]
        );
        assert_eq!(
            listed(None, Some("web"), limit).await,
            ["milk four", "tea three", "tea one"]
        );
        assert_eq!(
            listed(Some("tea"), Some("web"), limit).await,
            ["tea three", "tea one"]
        );
        assert_eq!(listed(Some("tea"), Some("mail"), limit).await.len(), 2);
        assert!(listed(None, Some("we"), limit).await.is_empty());
    }
    let best = Search {
        words: Some("tea".to_owned()),
        source: Some("web".to_owned()),
        since: None,
        before: None,
        sort: Sort::Best,
        limit: 50,
    };
    let found = subject.catalog.search_entries(TENANT, Target::Active, best);
    assert_eq!(found.await.expect("the store answers").len(), 2);
}

/// With words, the newest come first if that is asked for, and the best otherwise.
pub async fn found_entries_come_in_the_order_that_is_asked_for(subject: &EntrySubject) {
    let filler = "water ".repeat(200);
    insert(subject, "tea tea tea", "tea tea tea tea").await;
    subject.advance(Duration::from_secs(1));
    insert(subject, "middle", &format!("tea and tea {filler}")).await;
    subject.advance(Duration::from_secs(1));
    insert(subject, "last", &format!("{filler} tea {filler}")).await;

    let best = subject.found_by("tea", Sort::Best, None, 50).await;
    assert_eq!(best.len(), 3);
    assert_eq!(best[0], "tea tea tea");
    let newest = subject.found_by("tea", Sort::Newest, None, 50).await;
    assert_eq!(newest, ["last", "middle", "tea tea tea"]);
    let one = subject.found_by("tea", Sort::Best, None, 1).await;
    assert_eq!(one, ["tea tea tea"]);
    let one = subject.found_by("tea", Sort::Newest, None, 1).await;
    assert_eq!(one, ["last"]);
    assert!(
        subject
            .found_by("tea", Sort::Best, None, 0)
            .await
            .is_empty()
    );
}

/// Entries from before a time are left out, with words and without.
pub async fn only_what_is_new_enough_is_found(subject: &EntrySubject) {
    insert(subject, "old", "tea").await;
    subject.advance(Duration::from_secs(10));
    let row = subject.insert(bare("new tea")).await.row;
    let since = Some(row.created_at);
    for sort in [Sort::Best, Sort::Newest] {
        assert_eq!(subject.found_by("tea", sort, since, 50).await, ["new tea"]);
        let later = Some(row.created_at.plus(Duration::from_millis(1)));
        assert!(subject.found_by("tea", sort, later, 50).await.is_empty());
    }
    let search = Search {
        words: None,
        source: None,
        since,
        before: None,
        sort: Sort::Newest,
        limit: 50,
    };
    let found = subject
        .catalog
        .search_entries(TENANT, Target::Active, search);
    assert_eq!(found.await.expect("the store answers"), [row]);
}

/// One answer is bounded, whatever limit is asked for.
pub async fn an_answer_is_bounded(subject: &EntrySubject) {
    let batch = (0..=Search::LIMIT_MAX).map(|_| draft(bare("tea")));
    subject.write(batch.collect()).await;
    for sort in [Sort::Best, Sort::Newest] {
        let found = subject.found_by("tea", sort, None, usize::MAX).await;
        assert_eq!(found.len(), Search::LIMIT_MAX);
    }
    assert_eq!(subject.all().await.len(), Search::LIMIT_MAX);
}

/// A search with too many words is refused and says so.
pub async fn a_search_over_its_limits_is_refused(subject: &EntrySubject) {
    for words in ["tea ".repeat(1000), "x".repeat(1 << 20)] {
        let search = Search {
            words: Some(words),
            source: None,
            since: None,
            before: None,
            sort: Sort::Best,
            limit: 50,
        };
        let refused = subject
            .catalog
            .search_entries(TENANT, Target::Active, search);
        assert_eq!(refused.await.expect_err("too much").kind(), Kind::Limit);
    }
}

/// An entry is found by what it says now, not by what it said before.
pub async fn an_entry_is_found_by_what_it_says_now(subject: &EntrySubject) {
    subject.insert(thought(1, "green tea")).await;
    subject.insert(thought(2, "black tea")).await;
    subject.insert(thought(1, "coffee")).await;
    assert_eq!(subject.found("green").await, [""; 0]);
    assert_eq!(subject.found("tea").await, ["black tea"]);
    assert_eq!(subject.found("coffee").await, ["coffee"]);
    let row = &subject.all().await[0];
    subject
        .update(json!({"entry_id": row.entry_id, "title": "empty", "clean_text": null}))
        .await;
    let now = subject.found("empty").await;
    assert_eq!(now, ["empty"]);
}

/// A refused batch leaves nothing to be found.
pub async fn what_was_not_kept_is_not_found(subject: &EntrySubject) {
    let batch = vec![draft(bare("tea")), draft(json!({"source": "email"}))];
    let written = subject.write_to(TENANT, Target::Active, batch, true).await;
    assert!(!written.kept);
    assert_eq!(subject.found("tea").await, [""; 0]);
}

/// A very long text is stored whole and found by its first words.
pub async fn a_long_text_is_whole_and_found_by_its_first_words(subject: &EntrySubject) {
    let mut text = String::from("beginning of a long text ");
    for nth in 0_u32.. {
        write!(text, "word{nth} чай ").expect("a text takes it");
        if text.len() > 5 << 20 {
            break;
        }
    }
    let row = subject
        .insert(with(bare("long"), json!({"clean_text": text})))
        .await
        .row;
    let stored = subject.stored(row.entry_id).await;
    let column = hapax_core::entry::Column::CleanText;
    assert!(
        stored.fields.text(column) == Some(&*text),
        "it comes back whole"
    );
    assert_eq!(subject.found("beginning long word100").await, ["long"]);
}

/// Words without spaces, a million bytes long, and thousands of slashes are stored and do no harm.
pub async fn texts_that_are_no_words_do_no_harm(subject: &EntrySubject) {
    let huge = [
        "x".repeat(1 << 20),
        "/".repeat(4000),
        "> ".repeat(5000),
        "\"'\\".repeat(100_000),
        "ж".repeat(1 << 19),
    ];
    for text in huge {
        let entry = json!({"clean_text": format!("tea {text}"), "title": text, "author": text});
        let row = subject.insert(with(bare("x"), entry)).await.row;
        assert!(subject.stored(row.entry_id).await == row);
    }
    assert_eq!(subject.found("tea").await.len(), 5);
}
