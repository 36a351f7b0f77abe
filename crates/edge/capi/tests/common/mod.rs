//! The library, installed into its own directory, and C programs built against it there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where packages are said to be installed, below the temporary directory. Not `/usr`, whose
/// directories pkg-config leaves out.
pub(crate) const PREFIX: &str = "/opt/gigae";

/// A `DESTDIR` below Cargo's directory for tests, with the library of this profile in it.
pub(crate) struct Installed {
    root: PathBuf,
}

impl Installed {
    /// Installed once per process.
    pub(crate) fn once() -> &'static Self {
        static INSTALLED: OnceLock<Installed> = OnceLock::new();
        INSTALLED.get_or_init(|| Self::anew("all"))
    }

    /// Installs. Builds with Cargo what is not built yet, in the profile of this test.
    pub(crate) fn anew(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(name);
        if root.exists() {
            std::fs::remove_dir_all(&root).unwrap();
        }
        let installed = Self { root };
        installed.make("install");
        installed
    }

    /// Runs a target of the Makefile for this place.
    pub(crate) fn make(&self, target: &str) {
        let mut make = make(target);
        make.arg(format!("DESTDIR={}", self.root.display()));
        make.arg(format!("PREFIX={PREFIX}"));
        run(&mut make);
    }

    /// A path below the prefix.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(&PREFIX[1..]).join(below)
    }

    /// What pkg-config says.
    pub(crate) fn pkg_config(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("gigae");
        command.env("PKG_CONFIG_SYSROOT_DIR", &self.root);
        command.env("PKG_CONFIG_LIBDIR", self.path("lib/pkgconfig"));
        text(&run(&mut command).stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a C program of this crate's; where the result is.
    pub(crate) fn compile(&self, source: &str, linking: Linking) -> PathBuf {
        self.compile_with(source, linking, None)
    }

    /// The same, with the shared library, for a program that waits for minutes where it says
    /// seconds.
    pub(crate) fn compile_patient(&self, source: &str) -> PathBuf {
        self.compile_with(source, Linking::Shared, Some("tests/c/patient.h"))
    }

    fn compile_with(&self, source: &str, linking: Linking, before: Option<&str>) -> PathBuf {
        let file = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let source = file(source);
        let (name, kind) =
            (source.file_stem().unwrap().display(), before.map_or("", |_| "-patient"));
        let program = self.path(&format!("{name}-{linking:?}{kind}"));
        let (flags, how): (_, &[&str]) = match linking {
            Linking::Shared => (["--cflags", "--libs"].as_slice(), &[]),
            Linking::Static => (["--static", "--cflags", "--libs"].as_slice(), &["-static"]),
        };
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=c99", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        if let Some(before) = before {
            gcc.arg("-include").arg(file(before));
        }
        gcc.args(how).arg(source).arg("-o").arg(&program).args(self.pkg_config(flags));
        run(&mut gcc);
        program
    }
}

/// A target of the Makefile, in the profile of this test.
fn make(target: &str) -> Command {
    // Tests lie in TARGET/PROFILE/deps.
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent().unwrap().parent().unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")).arg(target);
    make.arg(format!("PROFILE={}", built.file_name().unwrap().display()));
    make.env("CARGO_TARGET_DIR", built.parent().unwrap());
    make
}

/// The Debian package, in a directory.
#[allow(dead_code, reason = "one file of tests needs it")]
pub(crate) fn package(directory: &Path) -> PathBuf {
    run(make("deb").arg("DEB_COMPRESSION=none").arg(format!("DEB_OUT={}", directory.display())));
    let mut found = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    found.find(|file| file.extension().is_some_and(|end| end == "deb")).unwrap()
}

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linking {
    /// With `libgigae.so`.
    Shared,
    /// With `libgigae.a`, and everything else statically, too.
    Static,
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{:?}: {error}; make test installs what is missing", command.get_program())
    });
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{:?} {:?}: {}\n{}{}",
        command.get_program(),
        command.get_args().collect::<Vec<&OsStr>>(),
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
    output
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
