//! What every page is made of: one self-contained document, sections, tables and lists.
//!
//! `maud` makes the elements, and so escapes every text. [`PreEscaped`] is used for our own style
//! sheet, script and document type, and for nothing else.

use crate::table::{FROM, MEANS, NamedValue, Table};
use data_encoding::BASE64;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole page. Control characters from the results become U+FFFD.
pub fn document(title: &str, content: &Markup) -> String {
    page(title, content, &[SCRIPT])
}

/// The same with a script of our own beside that of every page.
pub fn document_with(title: &str, content: &Markup, script: &'static str) -> String {
    page(title, content, &[SCRIPT, script])
}

fn page(title: &str, content: &Markup, scripts: &[&'static str]) -> String {
    // The browser itself keeps the page from fetching anything and from running what is not one of
    // its scripts.
    let hash = |script: &&str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(script)));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        scripts.iter().map(hash).collect::<Vec<_>>().join(" ")
    );
    let page = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                // An icon in the page keeps browsers from asking the server of the page for one.
                link rel="icon" href="data:,";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { "gigae: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                main id="main" tabindex="-1" { (content) }
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
        "\n"
    };
    page.into_string().replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// A table with its heading and note; nothing if it has no rows.
pub fn section(content: &Table) -> Markup {
    let sentences = [FROM, MEANS];
    let wrap = content.header.last().is_some_and(|last| sentences.contains(&last.as_str()));
    html! {
        @if !content.rows.is_empty() {
            h2 { (content.title) }
            p.soft { (content.note) }
            (table(content, if wrap { "wrap" } else { "" }))
        }
    }
}

/// A table.
pub fn table(content: &Table, class: &str) -> Markup {
    // Words are flush left, figures right.
    let words = |column: usize| {
        let mut cells = content.rows.iter().map(|row| &row[column]);
        cells.any(|cell| cell.chars().next().is_some_and(char::is_alphabetic)).then_some("t")
    };
    let side: Vec<_> = (0..content.header.len()).map(words).collect();
    html! {
        div.scroll tabindex="0" role="group" aria-label=(content.title) {
            table class=(class) {
                caption.unseen { (content.title) }
                thead {
                    tr {
                        @for (name, side) in content.header.iter().zip(&side) {
                            th scope="col" class=[side] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &content.rows {
                        tr {
                            @for (column, (cell, side)) in row.iter().zip(&side).enumerate() {
                                @if column == 0 {
                                    th scope="row" class=[side] { (cell) }
                                } @else {
                                    td class=[side] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table that is shown when its title is clicked.
pub fn folded(content: &Table) -> Markup {
    html! {
        details { summary { (content.title) } (table(content, "left wrap")) }
    }
}

/// A table of names and values.
pub fn names_and_values(rows: &[NamedValue]) -> Markup {
    html! {
        div.scroll {
            table class="left wrap" {
                caption.unseen { "Names and values" }
                tbody {
                    @for row in rows {
                        tr { th scope="row" { (row.name) } td { (row.value) } }
                    }
                }
            }
        }
    }
}

/// A figure's name, its value, and a note.
pub fn card(name: &str, value: &str, note: &str) -> Markup {
    html! {
        div.card { span { (name) } b { (value) } span.soft { (note) } }
    }
}

/// How the figures come about.
pub fn method(paragraphs: &[&str]) -> Markup {
    html! {
        h2 { "Method" }
        @for paragraph in paragraphs { p { (paragraph) } }
    }
}

/// The command that makes the page's results again.
pub fn to_repeat(command: &str) -> Markup {
    html! {
        p { "To repeat it:" }
        pre { code { (command) } }
    }
}
