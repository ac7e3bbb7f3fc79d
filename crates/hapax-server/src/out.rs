//! What people and machines read on standard output: tables and colours on a terminal, plain text in a
//! pipe, JSON on request. Logs do not go through here.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use comfy_table::{Cell, Color, Table, presets};

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
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(head.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|field| cell(field, coloured)));
    }
    line(&table.to_string())
}

fn cell((text, tone): &Field, coloured: bool) -> Cell {
    let cell = Cell::new(text);
    match tone {
        Tone::Plain => cell,
        Tone::Good | Tone::Warn | Tone::Bad if !coloured => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Warn => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
    }
}
