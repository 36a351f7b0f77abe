//! What pages are made of: HTML, Markdown, tables and charts, and the files that hold them.
//!
//! Reports and soaks share it. It knows the plain data of the evaluator, and no finding.

pub mod figure;
pub mod files;
pub mod html;
pub mod markdown;
pub mod svg;
pub mod table;
pub mod text;
pub mod time;
