//! What every Markdown page is made of: tables, and text that stays text.

use crate::table::{NamedValue, Table};
use std::fmt::Write;

/// A section of names and values.
pub fn names_and_values(title: &str, rows: Vec<NamedValue>, page: &mut String) {
    let rows = rows.into_iter().map(|row| vec![row.name, row.value]).collect();
    let header = vec!["what".into(), "value".into()];
    table(&Table { title: title.into(), note: String::new(), header, rows }, page);
}

/// A table.
pub fn table(content: &Table, page: &mut String) {
    let _ = writeln!(page, "## {}\n", escape(&content.title));
    if !content.note.is_empty() {
        let _ = writeln!(page, "{}\n", escape(&content.note));
    }
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    page.push_str(&line(&content.header));
    let _ = writeln!(page, "|{}", "---|".repeat(content.header.len()));
    content.rows.iter().for_each(|row| page.push_str(&line(row)));
    page.push('\n');
}

/// How the figures come about.
pub fn method(paragraphs: &[&str], page: &mut String) {
    page.push_str("## Method\n\n");
    for paragraph in paragraphs {
        let _ = writeln!(page, "{}\n", escape(paragraph));
    }
}

/// The command that makes the page's results again.
pub fn to_repeat(command: &str, page: &mut String) {
    let _ = writeln!(page, "To repeat it:\n\n{}", code([command]));
}

/// A block of code with these lines. It shows its characters as they are, so the backslashes of
/// [`escape`] would be part of the code. But some readers let HTML through even there.
pub fn code<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let line =
        |line: &str| format!("    {}", line.replace(char::is_control, " ").replace('<', "&lt;"));
    lines.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Keeps text from being read as a table's border, as markup or as HTML. `maud` escapes the texts
/// of the other pages, but it knows HTML only, where `|` and `*` mean nothing.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                safe.push('\\');
                safe.push(c);
            }
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_break_out_of_its_table() {
        assert_eq!(escape("a|b\n<i>"), "a\\|b &lt;i&gt;");
    }

    #[test]
    fn code_keeps_its_characters_but_begins_no_element_and_no_line() {
        assert_eq!(code(["a|b > c", "<i>\n# d"]), "    a|b > c\n    &lt;i> # d");
    }
}
