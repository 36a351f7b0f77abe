//! What goes wrong, one function each, and what must come of it.

mod context;
mod links;
mod machine;
mod processes;
mod trunk;

use self::context::ScenarioContext;
use crate::bench::{Setup, StepResult};
use crate::figures::Figures;
use gigae_torture::body::mix;
use oorandom::Rand64;
use std::path::Path;

/// One kind of fault.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens.
    pub about: &'static str,
    run: fn(ScenarioContext<'_>) -> StepResult<Figures>,
}

/// All there are.
pub const ALL: &[Scenario] = &[
    Scenario { name: "kill", about: "kill -9 of either end", run: processes::kill },
    Scenario { name: "down", about: "an interface goes down and up", run: links::down },
    Scenario { name: "mtu", about: "the MTU of an interface changes", run: links::mtu },
    Scenario { name: "gone", about: "a node's namespace and interface go", run: links::gone },
    Scenario { name: "detach", about: "the XDP program is detached", run: links::detach },
    Scenario { name: "flood", about: "UDP fills the switch's buffer", run: links::flood },
    Scenario { name: "starve", about: "the receive ring runs empty", run: links::starve },
    Scenario { name: "trunk-down", about: "one of two links goes down and up", run: trunk::down },
    Scenario { name: "trunk-mtu", about: "the MTU of one of two changes", run: trunk::mtu },
    Scenario { name: "trunk-gone", about: "one of two links is deleted", run: trunk::gone },
    Scenario { name: "trunk-detach", about: "one of two XDP programs goes", run: trunk::detach },
    Scenario { name: "trunk-flood", about: "UDP fills one of two switches", run: trunk::flood },
    Scenario {
        name: "udp-kill",
        about: "kill, over UDP sockets",
        run: |s| processes::kill(sockets(s)),
    },
    Scenario {
        name: "udp-down",
        about: "down, over UDP sockets",
        run: |s| links::down(sockets(s)),
    },
    Scenario { name: "udp-mtu", about: "mtu, over UDP sockets", run: |s| links::mtu(sockets(s)) },
    Scenario {
        name: "udp-gone",
        about: "gone, over UDP sockets",
        run: |s| links::gone(sockets(s)),
    },
    Scenario {
        name: "udp-flood",
        about: "flood, over UDP sockets",
        run: |s| links::flood(sockets(s)),
    },
    Scenario {
        name: "udp-starve",
        about: "a socket's buffer is full",
        run: |s| links::starve(sockets(s)),
    },
    Scenario { name: "busy", about: "loops take every processor", run: machine::busy },
    Scenario {
        name: "slow",
        about: "a program keeps messages, or makes no call",
        run: processes::slow,
    },
    Scenario { name: "clock", about: "the wall clock is stepped", run: machine::clock },
    Scenario { name: "disk", about: "the disk is full under eval", run: machine::disk },
];

/// The same over UDP sockets, of which one end may have another link in the same envelope.
fn sockets(mut context: ScenarioContext<'_>) -> ScenarioContext<'_> {
    let other = ["udp", "udp", "packet", "generic"][context.random.rand_range(0..4) as usize];
    context.setup.udp = true;
    context.setup.backends = ["udp", other];
    context
}

impl Scenario {
    /// The scenario of this name.
    pub fn find(name: &str) -> Option<Self> {
        ALL.iter().find(|scenario| scenario.name == name).copied()
    }

    /// Runs it once, with `program` (this crate's binary) as the workload. An error says what did
    /// not hold and how both ends spoke. Some seconds; needs root.
    pub fn run(&self, program: &Path, seed: u64) -> Result<Figures, String> {
        let mut random = Rand64::new(mix(seed ^ mix(self.name.len() as u64)).into());
        let setup = Setup::draw(seed, &mut random);
        let spoke = format!("{setup:?}");
        (self.run)(ScenarioContext { program, setup, random })
            .map_err(|what| format!("{what}; {spoke}"))
    }
}
