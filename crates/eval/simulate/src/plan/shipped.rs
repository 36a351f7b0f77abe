//! The plans that come with the program.

/// The plans that come with the program, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("incast", include_str!("../../plans/incast.toml")),
    ("homa16", include_str!("../../plans/homa16.toml")),
    ("leaf-spine-144", include_str!("../../plans/leaf-spine-144.toml")),
    ("patterns", include_str!("../../plans/patterns.toml")),
];

/// Their names, for messages to people.
pub(super) fn names() -> String {
    SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
