//! What `make install` puts where, and whether compilers take it. Needs no privileges.
#![allow(missing_docs)]

#[allow(dead_code, reason = "the other file of tests uses the rest")]
mod common;

use common::{Installed, Linking, PREFIX, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The interface's version: part of the name for the dynamic linker.
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// All files and links below a directory, in order.
fn files(below: &Path) -> Vec<String> {
    let found = run(Command::new("find").arg(below).args(["!", "-type", "d", "-printf", "%P\n"]));
    let mut names: Vec<_> = text(&found.stdout).lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// The headers: `gigae.h`, its parts, and `pm.h`.
fn headers(installed: &Installed) -> Vec<PathBuf> {
    let include = installed.path("include");
    files(&include).iter().map(|header| include.join(header)).collect()
}

#[test]
fn everything_is_installed_and_removed_again() {
    let shared = [format!("lib/libgigae.so.{MAJOR}"), format!("lib/libgigae.so.{VERSION}")];
    let all = [
        "bin/gigae",
        "include/gigae.h",
        "include/gigae/cluster.h",
        "include/gigae/counters.h",
        "include/gigae/endpoint.h",
        "include/gigae/error.h",
        "include/gigae/message.h",
        "include/gigae/operation.h",
        "include/gigae/options.h",
        "include/gigae/peer.h",
        "include/pm.h",
        "lib/libfabric/libgigae-fi.so",
        "lib/libgigae.a",
        "lib/libgigae.so",
        &shared[0],
        &shared[1],
        "lib/pkgconfig/gigae.pc",
        "lib/systemd/system/gigae-broker.service",
        "lib/systemd/system/gigae-serve.service",
        "share/bash-completion/completions/gigae",
        "share/doc/gigae/LICENSE-APACHE",
        "share/doc/gigae/LICENSE-MIT",
        "share/doc/gigae/broker.md",
        "share/doc/gigae/serve.md",
        "share/fish/vendor_completions.d/gigae.fish",
        "share/gigae/wireshark/gigae.lua",
        "share/zsh/site-functions/_gigae",
    ];
    let installed = Installed::anew("removed");
    let (pages, others): (Vec<_>, Vec<_>) =
        files(&installed.path("")).into_iter().partition(|file| file.starts_with("share/man/"));
    assert_eq!(others, all);
    for page in ["gigae.1", "gigae-eval.1", "gigae-serve.1", "gigae-fabric-up.1"] {
        assert!(pages.contains(&format!("share/man/man1/{page}")), "{page} in {pages:?}");
    }
    let version = text(&run(Command::new(installed.path("bin/gigae")).arg("--version")).stdout);
    assert_eq!(version.trim(), format!("gigae {VERSION}"));
    installed.make("uninstall");
    assert_eq!(files(&installed.path("")), [""; 0]);
}

#[test]
fn the_package_installs_what_make_install_does_and_goes_without_a_trace() {
    let place = tempfile::tempdir().unwrap();
    let deb = common::package(place.path());
    let field = |name: &str| {
        let output = run(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!((field("Package").as_str(), field("Version").as_str()), ("gigae", VERSION));
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));

    let unpacked = place.path().join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(&unpacked));
    let mut expected: Vec<_> = files(&Installed::once().path(""))
        .into_iter()
        // Other tests compile their programs there.
        .filter(|file| file.contains('/'))
        .map(|file| format!("usr/{file}{}", if file.contains("/man1/") { ".gz" } else { "" }))
        .chain(["usr/share/doc/gigae/copyright".to_owned()])
        .collect();
    expected.sort();
    assert_eq!(files(&unpacked), expected);
    let unit = unpacked.join("usr/lib/systemd/system/gigae-serve.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/gigae serve"), "{unit}");
    let version = run(Command::new(unpacked.join("usr/bin/gigae")).arg("--version")).stdout;
    assert_eq!(text(&version).trim(), format!("gigae {VERSION}"));

    // dpkg gives the files to root, which only root may.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = place.path().join("root");
    for directory in ["info", "updates", "triggers"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(directory)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        dpkg.args(["--force-script-chrootless", "--force-depends", "--log=/dev/null"]);
        text(&run(dpkg.args(arguments)).stdout)
    };
    dpkg(&["--install", deb.to_str().unwrap()]);
    let usr: Vec<_> = expected.iter().map(|file| file["usr/".len()..].to_owned()).collect();
    assert_eq!(files(&root.join("usr")), usr);
    dpkg(&["--verify", "gigae"]);
    dpkg(&["--remove", "gigae"]);
    assert!(!root.join("usr").exists(), "{:?}", files(&root.join("usr")));
}

#[test]
fn a_package_made_again_is_the_same_to_the_byte() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let of = |place: &Path| {
        let deb = std::fs::read(common::package(place)).unwrap();
        let mut names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
        let bill = names.find(|file| file.to_string_lossy().ends_with(".cdx.json")).unwrap();
        (deb, std::fs::read_to_string(bill).unwrap())
    };
    let first = of(places[0].path());
    // Times in the package are of whole seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let again = of(places[1].path());
    assert!(first.0 == again.0, "{} and {} bytes", first.0.len(), again.0.len());
    assert_eq!(first.1, again.1);
    assert!(first.1.contains("pkg:cargo/gigae-wire@"), "{}", first.1);
}

#[test]
fn pkg_config_names_the_release_and_what_the_archive_needs() {
    let installed = Installed::once();
    assert_eq!(installed.pkg_config(&["--modversion"]), [VERSION]);
    let file = std::fs::read_to_string(installed.path("lib/pkgconfig/gigae.pc")).unwrap();
    assert_eq!(file.lines().next(), Some(format!("prefix={PREFIX}").as_str()), "without DESTDIR");
    let shared = installed.pkg_config(&["--libs"]);
    assert_eq!(shared.iter().filter(|flag| flag.starts_with("-l")).count(), 1, "{shared:?}");
    let all = installed.pkg_config(&["--libs", "--static"]);
    assert!(all.contains(&"-lpthread".to_owned()), "{all:?}");
}

#[test]
fn the_shared_library_exports_its_own_functions_and_nothing_else() {
    let installed = Installed::once();
    let library = installed.path("lib/libgigae.so");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)).stdout;
    let symbols = text(&symbols);
    let mut exported: Vec<_> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let headers: String =
        headers(installed).iter().map(|header| std::fs::read_to_string(header).unwrap()).collect();
    let mut declared: Vec<_> = headers
        .lines()
        .filter_map(|line| line.strip_prefix("int ").or(line.strip_prefix("const char *")))
        .filter_map(|line| Some(line.split_once('(')?.0))
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
    let dynamic = text(&run(Command::new("readelf").arg("-d").arg(&library)).stdout);
    assert!(dynamic.contains(&format!("[libgigae.so.{MAJOR}]")), "{dynamic}");
}

#[test]
fn c99_and_cxx_take_the_headers_without_a_warning() {
    let installed = Installed::once();
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"];
    for (compiler, standard, language) in
        [("gcc", "-std=c99", "c"), ("gcc", "-std=c17", "c"), ("g++", "-std=c++11", "c++")]
    {
        // Each part by itself, too.
        for header in headers(installed) {
            run(Command::new(compiler).args(strict).args([standard, "-x", language]).arg(header));
        }
    }
}

#[test]
fn a_cxx_program_links_with_the_library() {
    let installed = Installed::once();
    let directory = tempfile::tempdir().unwrap();
    let [source, program] = ["version.cc", "version"].map(|name| directory.path().join(name));
    let code =
        "#include <gigae.h>\n#include <iostream>\nint main() { std::cout << gigae_version(); }";
    std::fs::write(&source, code).unwrap();
    let flags = installed.pkg_config(&["--cflags", "--libs"]);
    run(Command::new("g++")
        .args(["-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags));
    let mut version = Command::new(program);
    version.env("LD_LIBRARY_PATH", installed.path("lib"));
    assert_eq!(text(&run(&mut version).stdout), VERSION);
}

#[test]
fn every_program_compiles_with_the_shared_library_and_with_the_archive() {
    for program in [
        "examples/hello.c",
        "examples/epoll.c",
        "examples/inplace.c",
        "examples/tagged.c",
        "examples/remote.c",
        "examples/pm_pingpong.c",
        "examples/pm_ring.c",
        "tests/c/misuse.c",
        "tests/c/pm_misuse.c",
        "tests/c/pm_remote.c",
    ] {
        for linking in [Linking::Shared, Linking::Static] {
            let built = Installed::once().compile(program, linking);
            let needed = text(&run(Command::new("readelf").arg("-d").arg(built)).stdout);
            let shared = needed.contains(&format!("[libgigae.so.{MAJOR}]"));
            assert_eq!(shared, matches!(linking, Linking::Shared), "{program} {linking:?}");
        }
    }
}

#[test]
fn examples_are_short() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for file in std::fs::read_dir(examples).unwrap() {
        let file = file.unwrap().path();
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < 40, "{} has {lines} lines", file.display());
    }
}
