//! What both ends are: the inventory of a run, and what data passes on its way.

use crate::findings::ladder;
use gigae_eval_model::environment::EndEnvironment;
use gigae_eval_model::number::{gib, short};
use gigae_eval_model::results::Results;
use gigae_eval_page::table::{Table, plain, words};
use gigae_nic::{Bus, Nic};

/// Both ends of every link, line by line; lines of which neither end knows anything are left out.
pub fn inventory(results: &Results) -> Vec<Table> {
    results
        .environment
        .link
        .iter()
        .map(|link| {
            let (here, there) = (rows(&link.local), rows(&link.remote));
            let rows = here
                .into_iter()
                .zip(there)
                .filter(|((_, a), (_, b))| !a.is_empty() || !b.is_empty());
            Table {
                title: format!("Inventory ({})", link.name),
                note: "What driver and kernel say of both ends; nothing was changed.".into(),
                header: words(&["what", "measuring end", "answering end"]),
                rows: rows.map(|((name, here), (_, there))| vec![name, here, there]).collect(),
            }
        })
        .collect()
}

fn rows(end: &EndEnvironment) -> Vec<(String, String)> {
    let nic: Nic = serde_json::from_value(end.nic.clone()).unwrap_or_default();
    let level = |level: gigae_nic::Level| format!("{} of {}", level.current, level.max);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let bus = match &nic.bus {
        Bus::Pci(address) => format!("PCI {address}"),
        Bus::Virtio(address) => format!("virtio {address}"),
        Bus::Other(address) => address.clone(),
        Bus::Virtual => "none: made by software".into(),
    };
    let lanes = nic.pcie.as_ref().map(|pcie| {
        format!(
            "{} lanes of {} (at most {} of {})",
            pcie.width, pcie.speed, pcie.max_width, pcie.max_speed
        )
    });
    let queues = nic.queues.map(|queues| {
        format!(
            "{} receive, {} transmit, {} combined",
            level(queues.rx),
            level(queues.tx),
            level(queues.combined)
        )
    });
    let rings =
        nic.rings.map(|rings| format!("receive {}, transmit {}", level(rings.rx), level(rings.tx)));
    let known =
        |value: &serde_json::Value| if value.is_null() { String::new() } else { plain(value) };
    [
        ("interface", end.interface.clone()),
        ("driver", format!("{} {}", end.driver, text(&nic.version)).trim_end().to_owned()),
        ("firmware", text(&nic.firmware)),
        ("bus", bus),
        ("lanes", lanes.unwrap_or_default()),
        ("NUMA node", nic.numa_node.map_or(String::new(), |node| node.to_string())),
        ("link", nic.speed_mbit.map_or(String::new(), |mbit| format!("{mbit} Mbit/s"))),
        ("MTU", end.mtu.to_string()),
        ("queues", queues.unwrap_or_default()),
        ("rings", rings.unwrap_or_default()),
        ("coalescing", known(&end.coalescing)),
        ("offloads", known(&end.offloads)),
        (
            "interrupts",
            if nic.irqs.is_empty() { String::new() } else { format!("{} lines", nic.irqs.len()) },
        ),
        ("processor", format!("{}, {} usable", end.cpu, end.cpus)),
        ("memory", end.memory.map_or(String::new(), gib)),
        ("governor", end.governor.clone()),
        ("system", format!("Linux {}", end.kernel)),
        ("TCP", end.congestion_controls.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What data passes on its way over each link; only where copying in memory was measured.
pub fn ladders(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for link in results.links() {
        rows.extend(ladder(results, link).into_iter().map(|step| {
            vec![link.to_owned(), step.what, format!("{} MB/s", short(step.rate)), step.source]
        }));
    }
    (!rows.is_empty()).then(|| Table {
        title: "What data passes".into(),
        note: "At the measuring end, one way, in 10^6 bytes per second.".into(),
        header: words(&["link", "step", "carries", "how that is known"]),
        rows,
    })
}
