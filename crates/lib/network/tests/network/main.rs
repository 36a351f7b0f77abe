//! Links, switches, buffers and routes against values computed by hand, and invariants by seed.

mod conservation;
mod links;
mod plain;
mod switches;
