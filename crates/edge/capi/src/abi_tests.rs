//! Has a C compiler compare the header with this crate: sizes, offsets, numbers, and the type of
//! every function.

use crate::abi::*;
use crate::error::Code;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

/// `gigae.h` and its parts.
const HEADER: &str = concat!(
    include_str!("../include/gigae.h"),
    include_str!("../include/gigae/error.h"),
    include_str!("../include/gigae/options.h"),
    include_str!("../include/gigae/endpoint.h"),
    include_str!("../include/gigae/peer.h"),
    include_str!("../include/gigae/cluster.h"),
    include_str!("../include/gigae/message.h"),
    include_str!("../include/gigae/operation.h"),
    include_str!("../include/gigae/counters.h"),
);
const PM_HEADER: &str = include_str!("../include/pm.h");

/// Every source file with entries.
const SOURCES: &[&str] = &[
    include_str!("cluster.rs"),
    include_str!("endpoint.rs"),
    include_str!("error.rs"),
    include_str!("info.rs"),
    include_str!("memory.rs"),
    include_str!("operation.rs"),
    include_str!("options.rs"),
    include_str!("peer.rs"),
    include_str!("receive.rs"),
    include_str!("region.rs"),
    include_str!("send.rs"),
    include_str!("wait.rs"),
    include_str!("pm/context.rs"),
    include_str!("pm/device.rs"),
    include_str!("pm/memory.rs"),
    include_str!("pm/message.rs"),
    include_str!("pm/mod.rs"),
    include_str!("pm/select.rs"),
];

/// The C type that corresponds to a Rust type of an entry.
fn c_type(rust: &str) -> String {
    let simple = |name: &str| match name {
        "EndpointHandle" => "gigae_endpoint",
        "OptionsHandle" => "gigae_options",
        "ClusterHandle" => "gigae_cluster",
        "Buffer" => "gigae_buffer",
        "Message" => "gigae_message",
        "Failure" => "gigae_failure",
        "Counts" => "gigae_counts",
        "Tagged" => "gigae_tagged",
        "RemoteAddress" => "gigae_place",
        "Completion" => "gigae_completion",
        "Notice" => "gigae_notice",
        "Path" => "gigae_path",
        "PmDevice" => "pmDevice",
        "PmContext" => "pmContext",
        "u128" => "pmAddrHandle",
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        other => panic!("no C type is known for {other}"),
    };
    if let Some(to) = rust.strip_prefix("*mut ") {
        format!("{} *", c_type(to))
    } else if let Some(to) = rust.strip_prefix("*const ") {
        format!("{} const *", c_type(to))
    } else {
        simple(rust).to_owned()
    }
}

/// An entry of the library.
struct ExportedEntry {
    name: &'static str,
    /// What follows the name in its Rust declaration.
    rest: &'static str,
}

/// Every entry.
fn entries() -> impl Iterator<Item = ExportedEntry> {
    SOURCES.iter().flat_map(|source| source.split("#[unsafe(no_mangle)]\n").skip(1)).map(|entry| {
        let (head, _) = entry.split_once('{').unwrap();
        let (name, rest) = head.split_once("fn ").unwrap().1.split_once('(').unwrap();
        ExportedEntry { name, rest }
    })
}

/// An entry as C declares it.
fn declaration(ExportedEntry { name, rest }: ExportedEntry) -> String {
    let (arguments, result) = rest.split_once(')').unwrap();
    let result = c_type(result.trim().strip_prefix("->").unwrap().trim());
    let arguments: Vec<_> = arguments
        .split(',')
        .filter_map(|argument| argument.split_once(':'))
        .map(|(_, rust)| c_type(rust.trim()))
        .collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    format!("{result} {name}({arguments});")
}

/// The lines of both headers.
fn lines() -> impl Iterator<Item = &'static str> {
    HEADER.lines().chain(PM_HEADER.lines())
}

/// Whether a function's declaration begins here.
fn is_declaration(line: &str) -> bool {
    ["int gigae_", "const char *gigae_", "int pm", "const char *pm"]
        .iter()
        .any(|begin| line.starts_with(begin))
}

/// The functions that the headers declare.
fn declared() -> Vec<&'static str> {
    let mut names: Vec<_> = lines()
        .filter(|line| is_declaration(line))
        .map(|line| line[..line.find('(').unwrap()].rsplit([' ', '*']).next().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Compiles C code that includes the header; what the compiler says if it refuses.
fn compile(code: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("check.c");
    std::fs::write(&file, format!("#include <gigae.h>\n#include <pm.h>\n{code}")).unwrap();
    let include = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .args([include.as_os_str(), file.as_os_str()])
        .output()
        .expect("gcc runs; tools/need gcc=gcc installs it");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn check(code: &str) {
    if let Err(said) = compile(code) {
        panic!("{said}\n{code}");
    }
}

#[test]
fn every_function_has_the_same_type_in_the_header_and_here() {
    // A second declaration that differs from the header's is an error of C's.
    check(&entries().map(declaration).collect::<Vec<_>>().join("\n"));
    let mut names: Vec<_> = entries().map(|entry| entry.name).collect();
    names.sort_unstable();
    assert_eq!(names, declared());
}

#[test]
fn the_header_includes_every_part_and_says_what_each_is_for() {
    let parts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include/gigae");
    for part in std::fs::read_dir(parts).unwrap() {
        let name = part.unwrap().file_name().into_string().unwrap();
        assert!(HEADER.contains(&format!("#include \"gigae/{name}\"\n")), "{name}");
        assert!(HEADER.contains(&format!(" *     gigae/{name} ")), "{name}");
        assert!(HEADER.contains(&format!("/* gigae/{name}, a part of gigae.h: ")), "{name}");
    }
}

#[test]
fn the_comparison_of_types_notices_a_difference() {
    let said = compile("int gigae_send(gigae_endpoint *, uint64_t, void const *, size_t);");
    assert!(said.unwrap_err().contains("conflicting types"));
}

#[test]
fn every_structure_lies_in_memory_in_the_same_way() {
    let mut code = String::new();
    let mut is = |what: String, value: usize| {
        writeln!(code, "_Static_assert({what} == {value}, \"{what}\");").unwrap();
    };
    macro_rules! same {
        ($rust:ty, $c:literal: $($field:ident $c_field:literal),*) => {
            is(format!("sizeof({})", $c), size_of::<$rust>());
            is(format!("_Alignof({})", $c), align_of::<$rust>());
            $(is(format!("offsetof({}, {})", $c, $c_field), offset_of!($rust, $field));)*
        };
    }
    same!(Buffer, "gigae_buffer": data "data", capacity "capacity", opaque "opaque_");
    same!(Message, "gigae_message":
        data "data", len "len", from "from", reserved "reserved_", opaque "opaque_");
    same!(Failure, "gigae_failure": to "to", reason "reason", len "len", why "why");
    same!(Tagged, "gigae_tagged": tag "tag", len "len", from "from", reserved "reserved_");
    same!(RemoteAddress, "gigae_place": key "key", offset "offset", peer "peer", reserved "reserved_");
    same!(Completion, "gigae_completion": id "id", context "context", tag "tag", value "value",
        len "len", total "total", peer "peer", status "status", reason "reason",
        reserved "reserved_");
    same!(Notice, "gigae_notice": key "key", offset "offset", value "value", peer "peer", len "len");
    same!(Path, "gigae_path": interface "interface", frames_sent "frames_sent",
        frames_received "frames_received", frames_dropped "frames_dropped",
        frames_lost "frames_lost", deaths "deaths", returns "returns", reserved "reserved_");
    is("GIGAE_ANYBODY".to_owned(), ANYBODY as usize);
    is("GIGAE_MAX_OPERATION".to_owned(), MAX_OPERATION);
    is("sizeof(((gigae_failure *)0)->why)".to_owned(), WHY);
    is("sizeof(gigae_counts)".to_owned(), size_of::<Counts>());
    for (at, field) in Counts::FIELDS.iter().enumerate() {
        is(format!("offsetof(gigae_counts, {field})"), at * size_of::<u64>());
    }
    check(&code);
}

#[test]
fn every_number_is_the_same_and_none_is_missing() {
    let codes = Code::ALL.iter().map(|&(code, name)| (name, code as i32));
    let all: Vec<_> = codes.chain(NUMBERS.iter().copied()).collect();
    let mut code = String::new();
    for (name, value) in &all {
        writeln!(code, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    check(&code);
    let enumerated = HEADER
        .lines()
        .filter(|line| line.trim_start().starts_with("GIGAE_") && line.contains(" = "))
        .count();
    assert_eq!(enumerated, all.len(), "numbers in the header and here");
}

#[test]
fn the_header_names_the_release() {
    let version = ["MAJOR", "MINOR", "PATCH"].map(|part| {
        let line = format!("#define GIGAE_VERSION_{part} ");
        HEADER.lines().find_map(|l| l.strip_prefix(&line)).unwrap()
    });
    assert_eq!(version.join("."), env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_counter_of_the_library_is_in_the_header() {
    assert_eq!(size_of::<Counts>(), size_of::<gigae::Counters>(), "all of them are 64 bits long");
}

#[test]
fn pms_numbers_are_the_same_in_its_header_and_here() {
    let is = |what: &str| format!("_Static_assert({what}, \"{what}\");\n");
    check(
        &[is("PM_SUCCESS == 0"), is("PM_NODE_ANY == -1"), is("sizeof(pmAddrHandle) == 16")]
            .concat(),
    );
}

#[test]
fn every_declaration_is_explained_and_short_enough_to_read() {
    for line in lines() {
        assert!(line.len() <= 100, "too long: {line}");
    }
    let lines: Vec<_> = lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if is_declaration(line) {
            assert!(lines[number - 1].ends_with("*/"), "{line}");
        }
    }
}

#[test]
fn every_call_of_pm_says_what_it_stands_on() {
    let mut standing = false;
    for line in PM_HEADER.lines() {
        if line.starts_with("/*") {
            standing = false;
        }
        standing |= ["DOCUMENTED", "INFERRED", "OWN"].iter().any(|word| line.contains(word));
        assert!(standing || !is_declaration(line), "{line}");
    }
}
