//! What a transport with its setting and its condition is called.

use super::condition::Condition;

/// A transport's name with its variant.
pub fn label(transport: &str, variant: Option<&str>) -> String {
    variant.map_or_else(|| transport.to_owned(), |variant| format!("{transport} {variant}"))
}

/// The same with what is unusual about its conditions.
pub fn conditional(transport: &str, variant: Option<&str>, condition: &Condition) -> String {
    format!("{} {}", label(transport, variant), condition.words()).trim_end().to_owned()
}
