//! Renders the pages of errors as HTML: the part of Markdown that they use, and no more. What it does not know it shows as text.

use std::fmt::Write;

/// The page as HTML. Links to other pages, `NAME.md`, lead to `folder`/NAME.
pub(super) fn html(page: &str, folder: &str) -> String {
    let mut out = String::with_capacity(page.len() * 2);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let follows = |next: &&str, mark: &str| next.starts_with(mark);
        if line.trim().is_empty() {
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|next| *next != "```").collect();
            let _ = writeln!(out, "<pre><code>{}</code></pre>", escaped(&code.join("\n")));
        } else if let Some((level, title)) = heading(line) {
            let _ = writeln!(out, "<h{level}>{}</h{level}>", inline(title, folder));
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|next| follows(next, "|")) {
                rows.push(row);
            }
            table(&mut out, &rows, folder);
        } else if let Some(first) = line.strip_prefix("- ") {
            let mut items = vec![first.to_owned()];
            while let Some(next) = lines.next_if(|next| is_of_a_list(next)) {
                match (next.strip_prefix("- "), items.last_mut()) {
                    (None, Some(last)) => *last = format!("{last} {}", next.trim()),
                    (item, _) => items.push(item.unwrap_or(next).to_owned()),
                }
            }
            out.push_str("<ul>\n");
            for item in items {
                let _ = writeln!(out, "<li>{}</li>", inline(&item, folder));
            }
            out.push_str("</ul>\n");
        } else {
            let mut text = line.to_owned();
            while let Some(next) = lines.next_if(|next| is_of_a_paragraph(next)) {
                text = format!("{text} {}", next.trim());
            }
            let _ = writeln!(out, "<p>{}</p>", inline(&text, folder));
        }
    }
    out
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let (marks, title) = line.split_once(' ')?;
    let is_heading = (1..=3).contains(&marks.len()) && marks.bytes().all(|byte| byte == b'#');
    is_heading.then_some((marks.len(), title))
}

fn is_of_a_list(line: &str) -> bool {
    line.starts_with("- ") || (line.starts_with("  ") && !line.trim().is_empty())
}

fn is_of_a_paragraph(line: &str) -> bool {
    let begins_another = ["```", "|", "- ", "#"]
        .iter()
        .any(|mark| line.starts_with(mark));
    !begins_another && !line.trim().is_empty()
}

/// The first row is the head; the second one, of dashes, is not shown.
fn table(out: &mut String, rows: &[&str], folder: &str) {
    let row = |row: &str, cell: &str| {
        let cells = cells(row).into_iter();
        let cells = cells.map(|text| format!("<{cell}>{}</{cell}>", inline(text, folder)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = rows.iter().skip(2).map(|text| row(text, "td")).collect();
    let head = rows
        .first()
        .map_or_else(String::new, |text| row(text, "th"));
    let _ = writeln!(
        out,
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table></div>"
    );
}

/// The cells of a row. A bar within code is text.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_matches('|');
    let mut in_code = false;
    let parts = row.split(|c| {
        in_code ^= c == '`';
        c == '|' && !in_code
    });
    parts.map(str::trim).collect()
}

/// Code, links and bold text; all else as it is.
fn inline(text: &str, folder: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '*']) {
        let (before, from) = rest.split_at(at);
        out.push_str(&escaped(before));
        let (shown, after) = code(from)
            .or_else(|| link(from, folder))
            .or_else(|| bold(from, folder))
            .unwrap_or_else(|| (from[..1].to_owned(), &from[1..]));
        out.push_str(&shown);
        rest = after;
    }
    out.push_str(&escaped(rest));
    out
}

fn code(from: &str) -> Option<(String, &str)> {
    let (text, after) = from.strip_prefix('`')?.split_once('`')?;
    Some((format!("<code>{}</code>", escaped(text)), after))
}

fn bold<'t>(from: &'t str, folder: &str) -> Option<(String, &'t str)> {
    let (text, after) = from.strip_prefix("**")?.split_once("**")?;
    Some((format!("<strong>{}</strong>", inline(text, folder)), after))
}

fn link<'t>(from: &'t str, folder: &str) -> Option<(String, &'t str)> {
    let (text, after) = from.strip_prefix('[')?.split_once("](")?;
    let (to, after) = after.split_once(')')?;
    let shown = inline(text, folder);
    let page = to.strip_suffix(".md").filter(|page| !page.contains('/'));
    let to = match page {
        Some(page) => format!("{folder}/{page}"),
        None if to.contains("://") => to.to_owned(),
        // Other pages are in the repository, and served by nobody.
        None => return Some((shown, after)),
    };
    Some((format!("<a href=\"{}\">{shown}</a>", escaped(&to)), after))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pages_use_is_rendered_and_nothing_of_them_becomes_markup() {
        let page = "# a_code\n\nHTTP 409, see\n[other](other.md), [the *rest*](../a/rest.md#x) and [s](https://s.example/).\n\n- one `a|b`\n  and more\n- **two**\n\n\
                    | reason | rule |\n|---|---|\n| `x|y` | <b> & \"q\" |\n\n```sh\ncurl '<URL>'\n\nexit\n```\n2 * 3 [x] `\n";
        let expected = "<h1>a_code</h1>\n<p>HTTP 409, see <a href=\"/e/other\">other</a>, the *rest* and <a href=\"https://s.example/\">s</a>.</p>\n\
                        <ul>\n<li>one <code>a|b</code> and more</li>\n<li><strong>two</strong></li>\n</ul>\n\
                        <div class=\"wide\"><table>\n<thead><tr><th>reason</th><th>rule</th></tr>\n</thead>\n\
                        <tbody><tr><td><code>x|y</code></td><td>&lt;b&gt; &amp; &quot;q&quot;</td></tr>\n</tbody>\n</table></div>\n\
                        <pre><code>curl '&lt;URL&gt;'\n\nexit</code></pre>\n<p>2 * 3 [x] `</p>\n";
        assert_eq!(html(page, "/e"), expected);
    }
}
