//! The plans that come with the program.

/// The plans that come with the program, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("quick", include_str!("../../plans/quick.toml")),
    ("compare", include_str!("../../plans/compare.toml")),
    ("latency", include_str!("../../plans/latency.toml")),
    ("bandwidth", include_str!("../../plans/bandwidth.toml")),
    ("icmp", include_str!("../../plans/icmp.toml")),
    ("frames", include_str!("../../plans/frames.toml")),
    ("baseline", include_str!("../../plans/baseline.toml")),
    ("inventory", include_str!("../../plans/inventory.toml")),
    ("buffers", include_str!("../../plans/buffers.toml")),
    ("cpus", include_str!("../../plans/cpus.toml")),
    ("tuning", include_str!("../../plans/tuning.toml")),
    ("load", include_str!("../../plans/load.toml")),
    ("congestion", include_str!("../../plans/congestion.toml")),
    ("gigabit", include_str!("../../plans/gigabit.toml")),
    ("bench", include_str!("../../plans/bench.toml")),
    ("ablation", include_str!("../../plans/ablation.toml")),
    ("link", include_str!("../../plans/link.toml")),
    ("backend", include_str!("../../plans/backend.toml")),
    ("large", include_str!("../../plans/large.toml")),
    ("ftp", include_str!("../../plans/ftp.toml")),
    ("memory", include_str!("../../plans/memory.toml")),
    ("smb", include_str!("../../plans/smb.toml")),
    ("files", include_str!("../../plans/files.toml")),
    ("files-full", include_str!("../../plans/files-full.toml")),
    ("nfs", include_str!("../../plans/nfs.toml")),
    ("nfs-full", include_str!("../../plans/nfs-full.toml")),
    ("nfs-mount", include_str!("../../plans/nfs-mount.toml")),
    ("nfs-mount-full", include_str!("../../plans/nfs-mount-full.toml")),
    ("cores", include_str!("../../plans/cores.toml")),
];

/// Their names, for messages to people.
pub(super) fn names() -> String {
    SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
