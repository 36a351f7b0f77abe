//! The state and the counters of a network interface, asked by rtnetlink(7) (`RTM_GETLINK`) and of
//! its driver by ethtool, both in the calling thread's network namespace.

use gigae_eval_model::soak::Interface;
use gigae_netlink::{InterfaceInfo, Rtnetlink};
use gigae_nic as nic;

/// All these interfaces. One that is gone has no counters and is down.
pub fn read(names: &[String]) -> Vec<Interface> {
    let kernel = Rtnetlink::open().ok();
    let one = |name: &String| {
        let link = kernel.as_ref().and_then(|kernel| kernel.link_named(name).ok());
        let mut interface = link.map(state).unwrap_or_default();
        interface.name.clone_from(name);
        for (counter, value) in nic::statistics(name) {
            if super::rules::is_of_interest(&counter) {
                interface.counters.entry(format!("driver:{counter}")).or_insert(value);
            }
        }
        interface
    };
    names.iter().map(one).collect()
}

/// Words by which the kernel's messages name these interfaces: their names, and where they are
/// plugged in.
pub fn names_in_log(names: &[String]) -> Vec<String> {
    let bus = |name: &String| match nic::inventory(Some(name)).ok()?.pop()?.bus {
        nic::Bus::Pci(address) => Some(address),
        _ => None,
    };
    names.iter().cloned().chain(names.iter().filter_map(bus)).collect()
}

fn state(link: InterfaceInfo) -> Interface {
    let counters = link.counters.into_iter().map(|(name, value)| (name.to_owned(), value));
    Interface {
        up: link.carrier,
        changes: link.carrier_changes.into(),
        counters: counters.collect(),
        ..Interface::default()
    }
}
