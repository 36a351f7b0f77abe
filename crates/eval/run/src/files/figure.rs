//! The figure of a cell, of what its repetitions have brought.

use super::copy::Copied;
use super::{About, Gathered};
use crate::gather::{cpu_doubts, few_repetitions};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::stats;

impl Gathered {
    /// `None` if no repetition brought anything. `verified`: compared copies of all cells of its
    /// kind.
    pub(super) fn figure(
        self,
        link: &str,
        about: &About,
        verified: u64,
        limit: Option<f64>,
    ) -> Option<FileFigure> {
        let each = |of: fn(&Copied) -> f64| self.brought.iter().map(of).collect::<Vec<f64>>();
        let rates = each(|one| one.fetched.rate() / 1e6);
        let times = each(|one| one.fetched.seconds * 1e3);
        let wholes = each(|one| one.fetched.whole * 1e3);
        let (interval, transfer_ms) = (stats::median_interval(&rates)?, stats::median(&times)?);
        let whole = stats::median_interval(&wholes)?;
        let has_rate = self.cell.has_rate(transfer_ms);
        let before = self.brought.iter().filter_map(|one| one.fetched.before());
        let before: Vec<f64> = before.map(|seconds| seconds * 1e3).collect();
        let (mut server, mut client) = (Cost::default(), Cost::default());
        for one in &self.brought {
            server.add(&one.server);
            client.add(&one.client);
        }
        let mut doubts = Vec::new();
        if interval.coverage < stats::CONFIDENCE {
            doubts.push(few_repetitions(interval.coverage));
        }
        for (end, cost) in [("server's", &server), ("clients'", &client)] {
            cpu_doubts(end, cost, about.one_cpu, &mut doubts);
        }
        let middle = &self.brought[middle(&times)?].fetched;
        let shares = middle.transfers.iter().filter(|_| has_rate);
        Some(FileFigure {
            ground: about.ground,
            link: link.to_owned(),
            unit: "MB/s".to_owned(),
            median: stats::median(&rates).filter(|_| has_rate),
            ci95: has_rate.then_some([interval.low, interval.high]),
            coverage: interval.coverage,
            before_ms: stats::median(&before),
            whole_ms: stats::median(&wholes),
            whole_ci95: Some([whole.low, whole.high]),
            transfer_ms,
            shares: shares.map(|one| one.bytes as f64 / one.seconds / 1e6).collect(),
            disk_reads: self.brought.iter().map(|one| one.disk).collect(),
            repetitions: times,
            server,
            client,
            one_cpu: about.one_cpu,
            limit,
            verified,
            version: about.version.clone(),
            client_version: about.client_version.clone(),
            file_system: about.file_system.clone(),
            command: self.brought.last()?.fetched.command.clone(),
            cell: self.cell,
            doubts,
        })
    }
}

/// Which of these values is in the middle.
fn middle(values: &[f64]) -> Option<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    order.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_repetition_is_that_of_the_median() {
        assert_eq!(middle(&[3.0, 1.0, 2.0]), Some(2));
        assert_eq!(middle(&[3.0, 1.0]), Some(1));
        assert_eq!(middle(&[]), None);
    }
}
