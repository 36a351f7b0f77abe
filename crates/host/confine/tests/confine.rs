//! A confined process really tries what it may not do, in a separate process. Each case runs twice:
//! with the one right that it needs, where it must work, and without it, where the kernel must
//! refuse it. So a case that fails for another reason is not a proof.

use gigae_confine::{CapabilitySet, Confined, Confinement, Kernel, Landlock, Ports, Seccomp};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASE: &str = "CONFINE_CASE";
const DIRECTORY: &str = "CONFINE_DIRECTORY";
const PORT: &str = "CONFINE_PORT";

/// What a case works on.
struct Fixture {
    directory: PathBuf,
    port: u16,
}

struct Case {
    name: &'static str,
    /// What the kernel must have for the case to show anything.
    needs: Landlock,
    /// The rights of the run that must work; `None`: all that root has.
    loose: fn(&Fixture) -> Option<Confinement>,
    /// The rights of the run that must be refused.
    tight: fn(&Fixture) -> Confinement,
    attempt: fn(&Fixture) -> io::Result<()>,
}

const CASES: &[Case] = &[
    Case {
        name: "read a file elsewhere",
        needs: Landlock::Files,
        loose: |fixture| Some(usual(fixture).read(fixture.directory.join("outside"))),
        tight: usual,
        attempt: |fixture| fs::read(fixture.directory.join("outside/file")).map(drop),
    },
    Case {
        name: "read any file",
        needs: Landlock::Files,
        loose: |fixture| Some(usual(fixture).all_files()),
        tight: usual,
        attempt: |_| fs::read("/etc/passwd").map(drop),
    },
    Case {
        name: "connect, where only files are free",
        needs: Landlock::FilesAndTcp,
        loose: |fixture| Some(usual(fixture).all_files().connect(Ports::Any)),
        tight: |fixture| usual(fixture).all_files(),
        attempt: |fixture| TcpStream::connect(("127.0.0.1", fixture.port)).map(drop),
    },
    Case {
        name: "write a file that it may read",
        needs: Landlock::Files,
        loose: |fixture| Some(usual(fixture).write(fixture.directory.join("inside"))),
        tight: usual,
        attempt: |fixture| {
            File::options().append(true).open(fixture.directory.join("inside/file")).map(drop)
        },
    },
    Case {
        name: "truncate a file that it may read",
        needs: Landlock::Files,
        loose: |fixture| Some(usual(fixture).write(fixture.directory.join("inside"))),
        tight: usual,
        attempt: |fixture| truncate(&fixture.directory.join("inside/file")),
    },
    Case {
        name: "make a file elsewhere",
        needs: Landlock::Files,
        loose: |fixture| Some(usual(fixture).write(fixture.directory.join("outside"))),
        tight: usual,
        attempt: |fixture| File::create(fixture.directory.join("outside/new")).map(drop),
    },
    Case {
        name: "read a file of root's",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).keep(CapabilitySet::DAC_OVERRIDE)),
        tight: usual,
        attempt: |fixture| fs::read(fixture.directory.join("inside/secret")).map(drop),
    },
    Case {
        name: "connect to a port",
        needs: Landlock::FilesAndTcp,
        loose: |fixture| Some(usual(fixture).connect(Ports::Only(vec![fixture.port]))),
        tight: usual,
        attempt: |fixture| TcpStream::connect(("127.0.0.1", fixture.port)).map(drop),
    },
    Case {
        name: "bind a port",
        needs: Landlock::FilesAndTcp,
        loose: |fixture| Some(usual(fixture).bind(Ports::Any)),
        tight: usual,
        attempt: |_| TcpListener::bind("127.0.0.1:0").map(drop),
    },
    Case {
        name: "run a program",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).run("/")),
        tight: usual,
        attempt: |_| run("true", Path::new("/")),
    },
    Case {
        name: "have a program read a file elsewhere",
        needs: Landlock::Files,
        loose: |fixture| Some(with_programs(fixture).read(fixture.directory.join("outside"))),
        tight: with_programs,
        attempt: |fixture| run("cat", &fixture.directory.join("outside/file")),
    },
    Case {
        name: "use a capability that it did not keep",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).keep(CapabilitySet::SYS_NICE)),
        tight: usual,
        // Down is always allowed, and up again from there is not, whatever priority the test began
        // with.
        attempt: |_| {
            let to = |nice| numbers(libc::SYS_setpriority, &[libc::PRIO_PROCESS.into(), 0, nice]);
            to(19)?;
            to(-5)
        },
    },
    Case {
        name: "become root again",
        needs: Landlock::Absent,
        loose: |_| None,
        tight: usual,
        attempt: |_| numbers(libc::SYS_setuid, &[0]),
    },
    Case {
        name: "signal another process",
        needs: Landlock::FilesTcpAndSignals,
        loose: |_| None,
        // As root, for which the user's own check is not an obstacle.
        tight: |_| Confinement::new().keep(CapabilitySet::KILL),
        // SAFETY: signal 0 only asks whether one may.
        attempt: |_| call(i64::from(unsafe { libc::kill(libc::getppid(), 0) })),
    },
    Case {
        name: "trace",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).call(libc::SYS_ptrace)),
        tight: usual,
        attempt: |_| numbers(libc::SYS_ptrace, &[i64::from(libc::PTRACE_TRACEME), 0, 0, 0]),
    },
    Case {
        name: "compare processes",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).call(libc::SYS_kcmp)),
        tight: usual,
        attempt: |_| numbers(libc::SYS_kcmp, &[own(), own(), 0, 0, 1]),
    },
    Case {
        name: "change its personality",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).call(libc::SYS_personality)),
        tight: usual,
        attempt: |_| numbers(libc::SYS_personality, &[0xffff_ffff]),
    },
    Case {
        name: "leave its namespaces",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).call(libc::SYS_unshare)),
        tight: usual,
        attempt: |_| numbers(libc::SYS_unshare, &[i64::from(libc::CLONE_NEWUSER)]),
    },
    Case {
        name: "begin a process in another namespace",
        needs: Landlock::Absent,
        loose: |_| None,
        tight: |_| Confinement::new().keep(CapabilitySet::SYS_ADMIN),
        attempt: |_| clone_into(libc::CLONE_NEWUTS),
    },
    Case {
        name: "make a BPF map",
        needs: Landlock::Absent,
        loose: |fixture| Some(usual(fixture).call(libc::SYS_bpf)),
        tight: usual,
        attempt: |_| make_map(),
    },
];

/// What most cases start from: it may read one directory, and has a capability that works.
fn usual(fixture: &Fixture) -> Confinement {
    Confinement::new()
        .user("no-such-user")
        .keep(CapabilitySet::NET_RAW | CapabilitySet::BPF)
        .read(fixture.directory.join("inside"))
        .read("/proc")
}

/// The same, and what programs need.
fn with_programs(fixture: &Fixture) -> Confinement {
    let libraries = ["/bin", "/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache"];
    libraries.iter().fold(usual(fixture).read("/dev/null"), |all, path| all.run(path))
}

/// A system call whose arguments are numbers.
fn numbers(call_number: i64, arguments: &[i64]) -> io::Result<()> {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    let [a, b, c, d, e] = std::array::from_fn(argument);
    // SAFETY: none of the arguments is an address, and this process has one thread.
    call(unsafe { libc::syscall(call_number, a, b, c, d, e) })
}

fn own() -> i64 {
    i64::from(std::process::id())
}

fn call(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn truncate(path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a string that ends in a zero.
    call(i64::from(unsafe { libc::truncate(path.as_ptr(), 0) }))
}

fn run(program: &str, argument: &Path) -> io::Result<()> {
    match Command::new(program).arg(argument).output()? {
        Output { status, .. } if status.success() => Ok(()),
        Output { stderr, .. } if String::from_utf8_lossy(&stderr).contains("Permission denied") => {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        output => Err(io::Error::other(format!("{output:?}"))),
    }
}

fn clone_into(namespace: i32) -> io::Result<()> {
    let flags = namespace as u64 | libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM this is a fork of a process with one thread.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        // SAFETY: the child ends at once and touches nothing.
        0 => unsafe { libc::_exit(0) },
        other => call(other),
    }
}

fn make_map() -> io::Result<()> {
    // union bpf_attr of BPF_MAP_CREATE: type array, key, value, entries.
    let mut attributes = [0_u32; 32];
    attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
    // SAFETY: the attributes are 128 bytes, as said; the kernel reads them.
    call(unsafe { libc::syscall(libc::SYS_bpf, 0, attributes.as_ptr(), 128) })
}

/// Runs `case` in a separate process.
fn child(case: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = directory.path();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    for name in ["inside", "outside"] {
        fs::create_dir(path.join(name)).unwrap();
        fs::set_permissions(path.join(name), Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join(name).join("file"), "text").unwrap();
        fs::set_permissions(path.join(name).join("file"), Permissions::from_mode(0o666)).unwrap();
    }
    fs::write(path.join("inside/secret"), "text").unwrap();
    fs::set_permissions(path.join("inside/secret"), Permissions::from_mode(0o600)).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .env(CASE, case)
        .env(DIRECTORY, path)
        .env(PORT, listener.local_addr().unwrap().port().to_string())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    format!("{} {}", output.status, String::from_utf8_lossy(&bytes))
}

fn what_is_not_needed_is_refused() {
    let kernel = Kernel::look();
    assert_eq!(kernel.seccomp, Seccomp::Calls, "the tests need a kernel with seccomp");
    for case in CASES {
        if kernel.landlock < case.needs {
            println!("not shown by this kernel ({kernel}): {}", case.name);
            continue;
        }
        let loose = child(&format!("loose {}", case.name));
        assert!(text(&loose).contains("it worked"), "{}, allowed: {}", case.name, text(&loose));
        let tight = child(&format!("tight {}", case.name));
        assert!(text(&tight).contains("it was refused"), "{}: {}", case.name, text(&tight));
    }
}

fn user_capabilities_and_filter_are_those_that_were_asked_for() {
    let output = child("status");
    let said = text(&output);
    for line in [
        "Uid:\t65534\t65534\t65534\t65534",
        "Gid:\t65534\t65534\t65534\t65534",
        "Groups:\t \n",
        // CAP_NET_RAW is 13, CAP_BPF is 39.
        "CapPrm:\t0000008000002000",
        "CapEff:\t0000008000002000",
        "CapBnd:\t0000008000002000",
        "CapInh:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "user 65534, CAP_NET_RAW, CAP_BPF; Landlock: ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.contains("raw socket: Ok"), "{said}");
}

fn calls_by_other_numbers_end_the_process() {
    let output = child("x32");
    assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{}", text(&output));
}

fn a_kernel_without_landlock_or_seccomp_is_named_and_the_rest_is_given_up() {
    for (case, line) in [
        ("no landlock", "Landlock: not in this kernel; seccomp: system calls"),
        ("disabled landlock", "Landlock: not enabled when this kernel was started"),
        ("no seccomp", "seccomp: not in this kernel"),
    ] {
        let said = text(&child(case));
        assert!(said.contains(line) && said.contains("Uid:\t65534\t65534"), "{case}: {said}");
        assert!(said.contains("CapEff:\t0000008000002000"), "{case}: {said}");
    }
}

fn a_process_with_two_threads_or_without_a_capability_gets_an_error() {
    let said = text(&child("threads"));
    assert!(said.contains("2 threads run already"), "{said}");
    let said = text(&child("missing"));
    assert!(said.contains("lacks CAP_NET_RAW, CAP_BPF; run it as root"), "{said}");
}

fn a_program_has_the_files_of_its_fence_and_its_starter_keeps_all() {
    let place = tempfile::tempdir().unwrap();
    for name in ["inside", "outside"] {
        fs::create_dir(place.path().join(name)).unwrap();
        fs::write(place.path().join(name).join("file"), "x").unwrap();
    }
    let fixture = Fixture { directory: place.path().to_owned(), port: 0 };
    let reads = |name: &str| {
        let fence = with_programs(&fixture).fence().unwrap();
        let is_there = fence.is_some();
        let mut cat = Command::new("cat");
        cat.arg(place.path().join(name).join("file"));
        if let Some(fence) = fence {
            // SAFETY: `close` only makes system calls.
            unsafe { cat.pre_exec(move || fence.close()) };
        }
        (cat.output().unwrap().status.success(), is_there)
    };
    let can = Kernel::look().landlock >= Landlock::Files;
    assert_eq!(reads("inside"), (true, can));
    assert_eq!(reads("outside"), (!can, can));
    assert_eq!(fs::read(place.path().join("outside/file")).unwrap(), b"x");
}

fn main() {
    let Ok(case) = std::env::var(CASE) else {
        gigae_fabric::testing::run(&[
            ("what_is_not_needed_is_refused", what_is_not_needed_is_refused),
            (
                "user_capabilities_and_filter_are_those_that_were_asked_for",
                user_capabilities_and_filter_are_those_that_were_asked_for,
            ),
            #[cfg(target_arch = "x86_64")]
            ("calls_by_other_numbers_end_the_process", calls_by_other_numbers_end_the_process),
            (
                "a_kernel_without_landlock_or_seccomp_is_named_and_the_rest_is_given_up",
                a_kernel_without_landlock_or_seccomp_is_named_and_the_rest_is_given_up,
            ),
            (
                "a_process_with_two_threads_or_without_a_capability_gets_an_error",
                a_process_with_two_threads_or_without_a_capability_gets_an_error,
            ),
            (
                "a_program_has_the_files_of_its_fence_and_its_starter_keeps_all",
                a_program_has_the_files_of_its_fence_and_its_starter_keeps_all,
            ),
        ]);
    };
    let fixture = Fixture {
        directory: std::env::var_os(DIRECTORY).unwrap().into(),
        port: std::env::var(PORT).unwrap().parse().unwrap(),
    };
    in_child(&case, &fixture);
}

/// In the child, in its only thread.
fn in_child(case: &str, fixture: &Fixture) {
    let named = |name: &str| CASES.iter().find(|case| case.name == name);
    if let Some((run, case)) =
        case.split_once(' ').and_then(|(run, name)| Some((run, named(name)?)))
    {
        let needs =
            if run == "loose" { (case.loose)(fixture) } else { Some((case.tight)(fixture)) };
        needs.map(|needs| needs.apply().unwrap());
        return match (case.attempt)(fixture) {
            Ok(()) => println!("it worked"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("it was refused: {error}");
            }
            Err(error) => println!("it failed: {error}"),
        };
    }
    match case {
        "no landlock" => fake(libc::SYS_landlock_create_ruleset, libc::ENOSYS),
        "disabled landlock" => fake(libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP),
        "no seccomp" => fake(libc::SYS_seccomp, libc::EINVAL),
        "threads" => drop(std::thread::spawn(std::thread::park)),
        "missing" => drop(Confinement::new().read("/proc").apply().unwrap()),
        _ => {}
    }
    let confined = match usual(fixture).apply() {
        Ok(confined) => confined,
        Err(error) => return println!("{error}"),
    };
    if case == "x32" {
        // SAFETY: getpid touches no memory.
        println!("x32's getpid gave {}", unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) });
    }
    report(&confined);
}

fn report(confined: &Confined) {
    println!("{confined}");
    println!("{}", fs::read_to_string("/proc/self/status").unwrap());
    // SAFETY: the call touches no memory.
    let socket = call(i64::from(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) }));
    println!("raw socket: {socket:?}");
    io::stdout().flush().unwrap();
}

/// From now on this system call fails so, as on a kernel that has not got it.
fn fake(number: libc::c_long, errno: i32) {
    let instruction =
        |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32, 1),
        instruction(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno as u32, 0),
        instruction(libc::BPF_RET, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the four instructions during the call.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const whole) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}
