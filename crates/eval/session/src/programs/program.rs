//! What a program is.

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::plan::TcpOptions;
use std::net::SocketAddr;

/// A program.
pub trait Program: Sync {
    /// What it is.
    fn form(&self) -> &'static ProgramForm;

    /// Its name, for `--with` and in results.
    fn name(&self) -> &'static str {
        self.form().name
    }

    /// What it makes of TCP options that were wished for: what it cannot set is as it sets it.
    fn tcp(&self, wished: TcpOptions) -> TcpOptions {
        TcpOptions { one_buffer: true, ..wished }
    }

    /// Whether it speaks IPv6.
    fn ipv6(&self) -> bool {
        true
    }

    /// Whether its answering end waits at a UDP port for this.
    fn waits_at_udp(&self, _job: &Job) -> bool {
        false
    }

    /// Arguments of the answering end, which is to wait there.
    fn answering(&self, job: &Job, at: SocketAddr) -> Vec<String>;

    /// Arguments of the measuring end, whose peer waits there.
    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String>;

    /// The figure in our unit, from its standard output; `None` if it is not there.
    fn read(&self, job: &Job, said: &str) -> Option<f64>;
}

/// What a program is.
pub struct ProgramForm {
    /// Its name, for `--with` and in results.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// Its executable at the measuring and at the answering end.
    pub files: [&'static str; 2],
    /// What it can measure.
    pub measures: &'static [Measure],
}

/// Something that a program measures, and what of ours is shown beside it.
#[derive(Debug)]
pub struct Measure {
    /// The experiment of ours.
    pub experiment: Experiment,
    /// The transport of ours.
    pub transport: &'static str,
    /// Smallest and largest message in bytes.
    pub sizes: [usize; 2],
    /// Which of our figures is of the same kind.
    pub ours: OwnFigure,
    /// What its figure is and where it is counted, in words.
    pub counts: &'static str,
    /// What it does otherwise than we do, in words.
    pub otherwise: &'static str,
}

/// What is taken of our own repetition, so that like is compared with like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFigure {
    /// Bytes that arrived over time.
    Goodput,
    /// The mean round trip.
    Mean,
    /// The median round trip.
    Median,
    /// The least of the means of the repetition's thirds.
    LeastMean,
}

pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
