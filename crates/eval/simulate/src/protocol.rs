//! The protocols that can be simulated. A new one is a variant of [`Protocol`] here, its table in
//! `plan/form.rs`, and nothing else.

mod endpoint;
mod first;

use crate::job::Job;
use crate::measure::{TraceFile, measure};
use crate::plan::{DctcpPlan, GigaePlan, HomaPlan, SwiftPlan};
use crate::results::Run;
use crate::run::SimulateError;
use first::{First, Lengthy};
use gigae_network::Time;
use gigae_network::real::Real;
use gigae_network::workload::{Framing, MessageHost};
use gigae_network::yardstick::{Control, Dctcp, Homa, HomaConfig, Swift, Windowed};

/// Microseconds after which a host that speaks Homa asks again, where frames can be lost.
const RETRY_US: u64 = 500;

/// A protocol with its settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Protocol {
    Gigae(GigaePlan),
    Homa(HomaPlan),
    Dctcp(DctcpPlan),
    Swift(SwiftPlan),
}

impl Protocol {
    /// Its name in reports.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Gigae(plan) => &plan.name,
            Self::Homa(plan) => &plan.name,
            Self::Dctcp(plan) => &plan.name,
            Self::Swift(plan) => &plan.name,
        }
    }

    /// Its table in a plan.
    pub(crate) fn table(&self) -> &'static str {
        match self {
            Self::Gigae(_) => "gigae",
            Self::Homa(_) => "homa",
            Self::Dctcp(_) => "dctcp",
            Self::Swift(_) => "swift",
        }
    }

    /// Whether its hosts decide at random.
    pub(crate) fn is_random(&self) -> bool {
        matches!(self, Self::Gigae(_))
    }

    /// What a reader must know about its figures.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        match self {
            Self::Gigae(_) => {
                Some("gigae: a simulated endpoint's processor takes no time beside the turnaround.")
            }
            _ => None,
        }
    }

    /// Carries a run out. `None`: it was interrupted.
    pub(crate) fn run(&self, job: &Job<'_>) -> Result<Option<Run>, SimulateError> {
        let framing = HomaConfig::published().framing;
        match self {
            Self::Gigae(plan) => {
                let (hosts, framing) = endpoint::hosts(job.hosts(), job.seed, plan)?;
                measure(job, framing, hosts, Real::trace)
            }
            Self::Homa(plan) => {
                let default = job.plan.network.can_lose().then_some(RETRY_US);
                let config = HomaConfig {
                    framing,
                    unscheduled: plan.unscheduled,
                    ahead: plan.ahead,
                    degree: plan.degree as usize,
                    retry: plan.retry_us.or(default).map(Time::us),
                };
                model(job, framing, plan.first_below, || Homa::new(config))
            }
            Self::Dctcp(plan) => {
                let control = Dctcp::new(framing.payload);
                windowed(job, framing, plan.first_below, &control, plan.timeout_us)
            }
            Self::Swift(plan) => {
                let (base, range) = (Time::us(plan.base_us), Time::us(plan.range_us));
                let control = Swift::new(framing.payload, base, range).with_window(plan.window);
                windowed(job, framing, plan.first_below, &control, plan.timeout_us)
            }
        }
    }
}

/// Hosts with windows.
fn windowed<C: Control>(
    job: &Job<'_>,
    framing: Framing,
    first_below: Option<u32>,
    control: &C,
    timeout_us: u64,
) -> Result<Option<Run>, SimulateError> {
    let new = || Windowed::new(framing, control.clone(), Time::us(timeout_us));
    model(job, framing, first_below, new)
}

/// Hosts of a model.
fn model<H: MessageHost>(
    job: &Job<'_>,
    framing: Framing,
    first_below: Option<u32>,
    new: impl Fn() -> H,
) -> Result<Option<Run>, SimulateError>
where
    H::Payload: Lengthy,
{
    let hosts = (0..job.hosts()).map(|_| First::new(new(), first_below)).collect();
    let trace: TraceFile<H::Payload> = first::trace;
    measure(job, framing, hosts, trace)
}
