//! Children on real interfaces, in network namespaces that each test makes and removes. Needs root.
#![allow(missing_docs)]

use gigae_fabric::{Node, testing};
use gigae_link::{Interface, OpenError};
use gigae_macvlan::{Child, Claim, GROUP, children, remove_left_overs};
use std::io::Read;
use std::process::{Command, Stdio};

/// In a separate process: makes a child of this NIC in the namespace it was started in, says its
/// name, and waits to be killed.
const HOLD: &str = "GIGAE_TEST_HOLD";

fn ip(node: &Node, arguments: &[&str]) -> String {
    let output = node.command("ip").unwrap().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn a_child_is_an_interface_with_an_address_of_its_own_and_goes_when_it_is_dropped() {
    let fabric = testing::fabric("a child", |config| config.mtu = 2000);
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let child = Child::make("eth0").unwrap();
    assert_eq!((child.name(), child.parent()), ("gigae0", "eth0"));
    let found = Interface::find("gigae0").unwrap();
    assert_eq!((found.mac, found.index, found.mtu), (child.mac(), child.index(), 2000));
    assert_eq!(found.driver().as_deref(), Some("macvlan"));
    assert!(found.has_carrier());
    assert_eq!(child.mac().0[0] & 0b11, 0b10, "administered locally, no group");
    assert_ne!(child.mac(), Interface::find("eth0").unwrap().mac);
    let shown = ip(&node, &["-d", "link", "show", "dev", "gigae0"]);
    // No node asks it for the host's IP addresses.
    for part in
        ["NOARP", "macvlan mode bridge", "alias gigae", "addrgenmode none", &GROUP.to_string()]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!ip(&node, &["address", "show", "dev", "gigae0"]).contains("inet"), "no IP address");
    drop(child);
    assert!(matches!(Interface::find("gigae0"), Err(OpenError::NoInterface { .. })));
}

fn several_stand_side_by_side_under_names_that_are_free() {
    let fabric = testing::fabric("several", |_| {});
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    ip(&node, &["link", "add", "gigae1", "type", "bridge"]);
    let all: Vec<_> = (0..3).map(|_| Child::make("eth0").unwrap()).collect();
    let names: Vec<_> = all.iter().map(Child::name).collect();
    assert_eq!(names, ["gigae0", "gigae2", "gigae3"]);
    // One on a child is one on its NIC, as the kernel has it.
    let fourth = Child::make(all[0].name()).unwrap();
    let found = children().unwrap();
    let on_nic = found.iter().filter(|found| found.parent.as_deref() == Some("eth0")).count();
    assert_eq!((found.len(), on_nic), (4, 4), "{found:?}");
    assert!(found.iter().all(|found| !found.left_over), "{found:?}");
    assert!(Claim::take(fourth.mac()).unwrap().is_none(), "its address is claimed");
    let mac = fourth.mac();
    drop((all, fourth));
    assert_eq!(children().unwrap(), []);
    assert!(Claim::take(mac).unwrap().is_some());
}

/// Starts another process that makes a child of `eth0`; the process and the child's name.
fn another(node: &Node) -> (std::process::Child, String) {
    let mut command = node.command(std::env::current_exe().unwrap()).unwrap();
    let mut process =
        command.env(HOLD, "eth0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut name, mut byte) = (String::new(), [0]);
    let out = process.stdout.as_mut().unwrap();
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        name.push(byte[0] as char);
    }
    assert!(name.starts_with("gigae"), "'{name}'");
    (process, name)
}

/// The other process's part.
fn hold(nic: &str) {
    let child = Child::make(nic).unwrap();
    println!("{}", child.name());
    let _ = std::io::stdin().read(&mut [0]);
}

fn the_child_of_a_killed_process_is_left_over_and_the_next_one_removes_it() {
    let fabric = testing::fabric("left over", |_| {});
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    // A macvlan of another program is none of ours, whatever it is called.
    ip(&node, &["link", "add", "gigae7", "link", "eth0", "type", "macvlan", "mode", "bridge"]);
    let ((mut first, gone), (mut second, stays)) = (another(&node), another(&node));
    assert!(children().unwrap().iter().all(|found| !found.left_over));
    first.kill().unwrap();
    first.wait().unwrap();
    let left: Vec<_> = children().unwrap().into_iter().filter(|found| found.left_over).collect();
    assert_eq!(left.iter().map(|found| &found.name).collect::<Vec<_>>(), [&gone]);
    let own = Child::make("eth0").unwrap();
    let mut names: Vec<_> = children().unwrap().into_iter().map(|found| found.name).collect();
    names.sort();
    // The name is free only after it was looked for.
    let mut expected = vec![stays.clone(), own.name().to_owned()];
    expected.sort();
    assert_eq!(names, expected, "{gone} is gone, the others stay");
    second.kill().unwrap();
    second.wait().unwrap();
    assert_eq!(remove_left_overs().unwrap(), [stays]);
    assert_eq!(children().unwrap().len(), 1, "this process's own");
    assert!(Interface::find("gigae7").is_ok() || ip(&node, &["link"]).contains("gigae7"));
}

fn a_child_goes_with_its_process_that_ends_by_itself() {
    let fabric = testing::fabric("ends", |_| {});
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    let (mut process, name) = another(&node);
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
    assert!(!ip(&node, &["link"]).contains(&name), "dropped");
}

fn what_cannot_be_shared_is_refused_with_what_to_do() {
    let fabric = testing::fabric("refused", |_| {});
    let node = fabric.node(1);
    let _inside = node.enter().unwrap();
    assert!(matches!(Child::make("eth9"), Err(OpenError::NoInterface { .. })));
    let said = |parent| Child::make(parent).unwrap_err().to_string();
    assert!(said("lo").contains("name another NIC"), "{}", said("lo"));
    ip(&node, &["link", "add", "br0", "type", "bridge"]);
    ip(&node, &["link", "set", "eth0", "master", "br0"]);
    assert!(said("eth0").contains("bridge or bond; name that"), "{}", said("eth0"));
    ip(&node, &["link", "set", "eth0", "nomaster"]);
    ip(&node, &["link", "set", "eth0", "down"]);
    assert!(said("eth0").contains("ip link set eth0 up"), "{}", said("eth0"));
    assert_eq!(children().unwrap(), [], "nothing is left of what was refused");
}

fn the_error_names_the_right_that_a_process_lacks() {
    let fabric = testing::fabric("rights", |_| {});
    let node = fabric.node(1);
    let mut command = node.command("setpriv").unwrap();
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps", "-all"]);
    let mut process: Command = command;
    let output = process.arg(std::env::current_exe().unwrap()).env(HOLD, "eth0").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("CAP_NET_ADMIN"), "{said}");
}

fn main() {
    if let Ok(nic) = std::env::var(HOLD) {
        return hold(&nic);
    }
    testing::run(&[
        (
            "a_child_is_an_interface_with_an_address_of_its_own_and_goes_when_it_is_dropped",
            a_child_is_an_interface_with_an_address_of_its_own_and_goes_when_it_is_dropped,
        ),
        (
            "several_stand_side_by_side_under_names_that_are_free",
            several_stand_side_by_side_under_names_that_are_free,
        ),
        (
            "the_child_of_a_killed_process_is_left_over_and_the_next_one_removes_it",
            the_child_of_a_killed_process_is_left_over_and_the_next_one_removes_it,
        ),
        (
            "a_child_goes_with_its_process_that_ends_by_itself",
            a_child_goes_with_its_process_that_ends_by_itself,
        ),
        (
            "what_cannot_be_shared_is_refused_with_what_to_do",
            what_cannot_be_shared_is_refused_with_what_to_do,
        ),
        (
            "the_error_names_the_right_that_a_process_lacks",
            the_error_names_the_right_that_a_process_lacks,
        ),
    ]);
}
