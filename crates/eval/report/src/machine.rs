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
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let queues = nic.queues.map(|queues| {
        format!(
            "{} receive, {} transmit, {} combined",
            level(queues.rx),
            level(queues.tx),
            level(queues.combined)
        )
    });
    let known =
        |value: &serde_json::Value| if value.is_null() { String::new() } else { plain(value) };
    [
        ("interface", end.interface.clone()),
        ("driver", format!("{} {}", end.driver, text(&nic.version)).trim_end().to_owned()),
        ("firmware", text(&nic.firmware)),
        ("bus", bus(&nic)),
        ("lanes", lanes(&nic).unwrap_or_default()),
        ("NUMA node", nic.numa_node.map_or(String::new(), |node| node.to_string())),
        ("link", nic.speed_mbit.map_or(String::new(), |mbit| format!("{mbit} Mbit/s"))),
        ("MTU", end.mtu.to_string()),
        ("queues", queues.unwrap_or_default()),
        ("rings", rings(&nic).unwrap_or_default()),
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

fn bus(nic: &Nic) -> String {
    match &nic.bus {
        Bus::Pci(address) => format!("PCI {address}"),
        Bus::Virtio(address) => format!("virtio {address}"),
        Bus::Other(address) => address.clone(),
        Bus::Virtual => "none: made by software".into(),
    }
}

fn lanes(nic: &Nic) -> Option<String> {
    let pcie = nic.pcie.as_ref()?;
    Some(format!(
        "{} lanes of {} (at most {} of {})",
        pcie.width, pcie.speed, pcie.max_width, pcie.max_speed
    ))
}

fn level(level: gigae_nic::Level) -> String {
    format!("{} of {}", level.current, level.max)
}

fn rings(nic: &Nic) -> Option<String> {
    let rings = nic.rings?;
    Some(format!("receive {}, transmit {}", level(rings.rx), level(rings.tx)))
}

/// The NICs of this run beside those that papers measured; `None` if the plan carries none.
pub fn nic_table(results: &Results) -> Option<Table> {
    let plan = &results.plan;
    if plan.nic.is_empty() {
        return None;
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for end in results.environment.link.iter().flat_map(|link| [&link.local, &link.remote]) {
        let nic: Nic = serde_json::from_value(end.nic.clone()).unwrap_or_default();
        let bus = [Some(bus(&nic)), lanes(&nic)].into_iter().flatten().collect::<Vec<_>>();
        let row = vec![
            format!("here: {}", end.driver),
            bus.join(", "),
            // No driver says this.
            "not reported".to_owned(),
            rings(&nic).map_or("not reported".to_owned(), |rings| format!("descriptors: {rings}")),
            format!("{}, Linux {}", end.driver, end.kernel),
            String::new(),
        ];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.extend(plan.nic.iter().map(|nic| {
        let said = |fact: &Option<String>| fact.clone().unwrap_or_default();
        vec![
            nic.name.clone(),
            said(&nic.bus),
            said(&nic.processor),
            said(&nic.memory),
            said(&nic.driver),
            format!("{}, {}", nic.source, nic.at),
        ]
    }));
    let named = |name: &String| plan.nic.iter().any(|nic| nic.source == *name);
    let sources = plan.source.iter().filter(|(name, _)| named(name));
    let sources: Vec<String> = sources.map(|(name, source)| format!("{name}: {source}.")).collect();
    Some(Table {
        title: "NICs beside those of the papers".into(),
        note: format!(
            "As far as the papers describe them, and as far as drivers say it of the NICs of this run. {}",
            sources.join(" ")
        ),
        header: words(&["NIC", "bus", "own processors", "memory", "driver", "from"]),
        rows,
    })
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
