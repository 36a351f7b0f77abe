//! What two ends need beside the measured traffic: the control connection, the links, the settings
//! of NIC and kernel, and other programs.

pub mod control;
pub mod programs;
pub mod remark;
pub mod stage;
pub mod tune;

pub use control::ControlError;
