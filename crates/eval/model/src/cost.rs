//! What a measurement costs one end: CPU time, frames on the device, interrupts.
//!
//! Definitions, which the results repeat:
//!
//! - *CPU* is the measuring thread's user and system time (getrusage(2) `RUSAGE_THREAD`) plus the
//!   time its CPU spent in hard and soft interrupts (`/proc/stat`, proc_stat(5)), per second of the
//!   measurement and at most one. A kernel without `CONFIG_IRQ_TIME_ACCOUNTING` charges an
//!   interrupt to the thread that it hits as well. Such time counts once: see [`Cost::own`]. The
//!   two parts are recorded as they were read.
//! - *Frames* are packets that the device counted (`/proc/thread-self/net/dev`). With segmentation
//!   offload one such packet may be many frames on a wire.
//! - *Interrupts* are the device's lines in `/proc/interrupts`; a device without lines has receive
//!   soft interrupts (`NET_RX` of `/proc/softirqs`) of the measuring CPU instead.
//! - *System calls* are counted by the transports themselves, which know every one they make. Those
//!   that hand over datagrams or frames also count these: a device counts what was segmented behind
//!   it as one.
//!
//! `/proc/stat` counts in ticks of typically 10 ms, so short repetitions give coarse figures there;
//! they are added up over all repetitions of a cell.

use serde::{Deserialize, Serialize};

/// The costs of one end over one or more repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Time over which the rest was counted, in seconds.
    pub seconds: f64,
    /// User and system time of the measuring thread, in seconds, as it was read.
    pub cpu_thread: f64,
    /// Hard and soft interrupt time of its CPU, in seconds.
    pub cpu_interrupts: f64,
    /// Time its CPU ran other threads, in seconds: its ticks less the thread's time. Negative if
    /// that has interrupts in it. Rounding to ticks may make it slightly negative, too; adding up
    /// repetitions evens that out.
    pub cpu_others: f64,
    /// Time a hypervisor withheld its CPU, in seconds.
    pub steal: f64,
    /// Packets that the device sent.
    pub tx_frames: u64,
    /// Packets that the device received.
    pub rx_frames: u64,
    /// Bytes that the device sent.
    pub tx_bytes: u64,
    /// Bytes that the device received.
    pub rx_bytes: u64,
    /// Interrupts of the device, or receive soft interrupts of the measuring CPU.
    pub interrupts: u64,
    /// System calls of the measuring loop, all kinds.
    pub syscalls: u64,
    /// Those of them that sent something, and every doorbell of a link.
    pub send_calls: u64,
    /// Datagrams or frames that those sent, as the transport counts them; zero where it does not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub datagrams_sent: u64,
    /// System calls that received something; zero where the transport does not count them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receive_calls: u64,
    /// Datagrams that those received.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub datagrams_received: u64,
    /// How often the thread went to sleep.
    pub sleeps: u64,
    /// How often another thread took its CPU away.
    pub preemptions: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Cost {
    /// CPU seconds per second: see the module's definition.
    pub fn cpu(&self) -> f64 {
        if self.seconds <= 0.0 {
            return 0.0;
        }
        ((self.own() + self.cpu_interrupts) / self.seconds).min(1.0)
    }

    /// The thread's time without the interrupts that the kernel has charged to it as well, in
    /// seconds. By `/proc/stat`, its CPU has not worked as long as the thread then; the rest of the
    /// thread's time was interrupts, as far as there were any, or time that the hypervisor
    /// withheld.
    pub fn own(&self) -> f64 {
        let twice = (-self.cpu_others - self.steal).min(self.cpu_interrupts).max(0.0);
        (self.cpu_thread - twice).max(0.0)
    }

    /// Datagrams or frames per sending system call; `None` where the transport does not count them.
    pub fn sent_per_call(&self) -> Option<f64> {
        (self.datagrams_sent > 0 && self.send_calls > 0)
            .then(|| self.datagrams_sent as f64 / self.send_calls as f64)
    }

    /// Datagrams per system call that received something; `None` where the transport does not count
    /// them.
    pub fn received_per_call(&self) -> Option<f64> {
        (self.receive_calls > 0).then(|| self.datagrams_received as f64 / self.receive_calls as f64)
    }

    /// Adds another repetition's costs.
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.cpu_thread += other.cpu_thread;
        self.cpu_interrupts += other.cpu_interrupts;
        self.cpu_others += other.cpu_others;
        self.steal += other.steal;
        self.tx_frames += other.tx_frames;
        self.rx_frames += other.rx_frames;
        self.tx_bytes += other.tx_bytes;
        self.rx_bytes += other.rx_bytes;
        self.interrupts += other.interrupts;
        self.syscalls += other.syscalls;
        self.send_calls += other.send_calls;
        self.datagrams_sent += other.datagrams_sent;
        self.receive_calls += other.receive_calls;
        self.datagrams_received += other.datagrams_received;
        self.sleeps += other.sleeps;
        self.preemptions += other.preemptions;
    }
}

/// What all CPUs do while nothing is measured, in seconds per second of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Work of any thread.
    pub work: f64,
    /// Hard and soft interrupts.
    pub interrupts: f64,
    /// Withheld by a hypervisor.
    pub steal: f64,
}
