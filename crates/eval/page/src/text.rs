//! What every text for a terminal is made of: at most 100 columns.

use crate::table::Table;
use std::fmt::Write;

/// A table never gets wider; columns that do not fit go into a further block.
pub const WIDTH: usize = 100;

/// A paragraph whose further lines are set in.
pub fn hanging(paragraph: &str, text: &mut String) {
    for (number, line) in wrapped(paragraph, WIDTH - 4).iter().enumerate() {
        let _ = writeln!(text, "{}{line}", if number == 0 { "  " } else { "    " });
    }
}

/// A heading.
pub fn heading(title: &str, bold: bool) -> String {
    if bold { format!("\x1b[1m{title}\x1b[0m\n") } else { format!("{title}\n") }
}

/// A table of at most 100 columns; columns that do not fit go into a further block.
pub fn plain_table(table: &Table, bold: bool) -> String {
    let mut text = heading(&table.title, bold);
    for line in wrapped(&table.note, WIDTH - 2) {
        let _ = writeln!(text, "  {line}");
    }
    let widths: Vec<usize> = (0..table.header.len())
        .map(|column| {
            let cells = table.rows.iter().map(|row| row[column].chars().count());
            cells.chain([table.header[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut first = 1;
    while first < widths.len() {
        // The first column is repeated in every block.
        let mut width = 2 + widths[0];
        let mut end = first;
        while end < widths.len() && (end == first || width + 2 + widths[end] <= WIDTH) {
            width += 2 + widths[end];
            end += 1;
        }
        for row in std::iter::once(&table.header).chain(&table.rows) {
            let mut line = format!("  {:>width$}", row[0], width = widths[0]);
            for column in first..end {
                let _ = write!(line, "  {:>width$}", row[column], width = widths[column]);
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        first = end;
        if first < widths.len() {
            text.push('\n');
        }
    }
    text
}

/// Lines of at most so many columns.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_is_cut_into_blocks_that_fit() {
        let table = Table {
            title: "wide".into(),
            note: "word ".repeat(60),
            header: (0..12).map(|column| format!("column-{column:05}")).collect(),
            rows: vec![vec!["value".into(); 12]; 2],
        };
        let text = plain_table(&table, false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("column-00011"));
        assert_eq!(text.matches("column-00000").count(), 2);
    }
}
