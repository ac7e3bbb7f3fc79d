//! What people and machines read on standard output: tables and colours on a terminal, plain text in a
//! pipe, JSON on request. Logs do not go through here.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use comfy_table::{
    Cell, Color, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table,
    TableStyle,
};

use crate::exit;

/// Prints `text` and a newline, and flushes. An error of kind `BrokenPipe` is for `main` to swallow.
pub(crate) fn line(text: &str) -> Result<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints these bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Prints a JSON document on one line.
pub(crate) fn json(document: &serde_json::Value) -> Result<()> {
    line(&document.to_string())
}

/// Says something to a person on standard error. A reader that has gone misses it, and nothing else.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says on standard error why the program fails, and what to do next.
pub(crate) fn error(error: &anyhow::Error) {
    note(&format!("hapax: {}", exit::describe(error)));
}

/// A rule under the head, and none between rows.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::new(' ', ' ', ' '))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .content_lines(ContentLineStyle::new(' ', ' ', ' '));

/// How good a cell's news is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
}

/// One cell of a table.
pub(crate) type Field = (String, Tone);

/// A cell without colour.
pub(crate) fn plain(text: &(impl ToString + ?Sized)) -> Field {
    (text.to_string(), Tone::Plain)
}

/// Prints rows: a table on a terminal, tab-separated lines without a head in a pipe.
pub(crate) fn table(head: &[&str], rows: &[Vec<Field>]) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        let lines = rows.iter().map(|row| {
            let cells: Vec<&str> = row.iter().map(|(text, _)| text.as_str()).collect();
            cells.join("\t") + "\n"
        });
        return bytes(lines.collect::<String>().as_bytes());
    }
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut table = Table::new();
    table
        .load_style(STYLE)
        // As wide as the terminal; what does not fit goes on in the next line of its cell.
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|field| cell(field, coloured)));
    }
    keep_ids_whole(&mut table);
    line(&table.trim_fmt())
}

/// The first column of most tables is what the next command is given: it is not broken, where there is room.
fn keep_ids_whole(table: &mut Table) {
    let first = table.column_max_content_widths().first().copied();
    let has_room = |width: u16| table.width().is_some_and(|whole| width < whole / 2);
    if first.is_some_and(has_room)
        && let Some(column) = table.column_mut(0)
    {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

fn cell((text, tone): &Field, coloured: bool) -> Cell {
    let cell = Cell::new(in_short(text));
    match tone {
        Tone::Plain => cell,
        Tone::Good | Tone::Warn | Tone::Bad if !coloured => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Warn => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
    }
}

/// A time without what a person does not read; anything else as it is.
fn in_short(text: &str) -> String {
    let form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        19 => byte == b'.',
        23 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if text.len() == 24 && text.bytes().enumerate().all(form) {
        return text[..19].replace('T', " ");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_second_and_nothing_else_is_touched() {
        assert_eq!(in_short("2026-11-19T06:19:42.679Z"), "2026-11-19 06:19:42");
        for text in ["", "-", "2026-11-19T06:19:42Z", "11111111-1111-1111-11111"] {
            assert_eq!(in_short(text), text);
        }
    }
}
