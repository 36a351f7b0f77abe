//! What a file service gave in a guest: plain data of the lab's record.

use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::plan::Plan;
use gigae_eval_model::service::Direction;
use serde::{Deserialize, Serialize};

/// What a service gave in a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRow {
    /// The service.
    pub service: String,
    /// What was transferred, for people.
    pub what: String,
    /// Which end had it at first.
    pub direction: Direction,
    /// Seconds of the guest from the start of the client to its end: median of the copies.
    pub seconds: f64,
    /// Rate in Mbit/s: of the transfer alone where the client says how long it took, else of all
    /// its time; absent for short ones.
    pub mbit: Option<f64>,
    /// Copies that the plan wants, if the record says it.
    #[serde(default)]
    pub planned: u32,
    /// Copies that were measured.
    pub copies: u32,
    /// Copies that were compared with the file.
    pub verified: u64,
    /// Frames of a copy that the server's card sent and received.
    pub frames: [f64; 2],
    /// Receive soft interrupts of a copy (`NET_RX`), in which the kernel takes frames from a card:
    /// of the server's processor and of the client's, which may be the same one.
    pub receive_softirqs: [f64; 2],
}

impl FileRow {
    /// `None` if the guest did not measure the client's whole time.
    pub(super) fn of(figure: &FileFigure, plan: &Plan) -> Option<Self> {
        let cells = plan.file_cells(None);
        let planned = cells.iter().find(|(cell, _)| *cell == figure.cell).map(|(_, times)| *times);
        let copies = figure.repetitions.len();
        let each = |count: u64| count as f64 / copies.max(1) as f64;
        Some(Self {
            service: figure.cell.service.clone(),
            what: figure.cell.what(),
            direction: figure.cell.direction,
            seconds: figure.whole_ms? / 1e3,
            mbit: figure.mbit(),
            planned: planned.unwrap_or(0),
            copies: u32::try_from(copies).unwrap_or(u32::MAX),
            verified: figure.verified,
            frames: [figure.server.tx_frames, figure.server.rx_frames].map(each),
            receive_softirqs: [figure.server.interrupts, figure.client.interrupts].map(each),
        })
    }

    /// What is wrong with it.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let Self { service, what, planned, copies, .. } = self;
        let does = if self.direction.is_get() { "fetched" } else { "sent" };
        let few = (copies < planned)
            .then(|| format!("{service}, {what} {does}: {copies} of {planned} copies"));
        let unseen = (self.verified == 0)
            .then(|| format!("{service}, {what} {does}: no copy was compared with the file"));
        few.into_iter().chain(unseen)
    }

    /// What of all services compares.
    pub(super) fn transfer(&self) -> (&str, Direction) {
        (&self.what, self.direction)
    }
}
