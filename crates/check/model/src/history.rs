//! What has become of every message.

use crate::rule::Rule;

/// Names a message: the flow that it belongs to, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) flow: u8,
    pub(crate) number: u8,
}

/// What was reported of a message to the program that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Report {
    Nothing,
    Done,
    Failed,
    /// The program does not live any more.
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageFate {
    /// The receiver's life that it was delivered to.
    delivered: Option<u8>,
    pub(crate) report: Report,
}

/// The messages of one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Not sent yet.
    pub(crate) left: u8,
    pub(crate) fates: Vec<MessageFate>,
}

impl Flow {
    pub(crate) fn new(from: usize, to: usize, left: u8) -> Self {
        Self { from, to, left, fates: Vec::new() }
    }

    /// The next message's number; it is on its way now.
    pub(crate) fn send(&mut self) -> u8 {
        self.left -= 1;
        self.fates.push(MessageFate { delivered: None, report: Report::Nothing });
        (self.fates.len() - 1) as u8
    }

    /// A message came to a life of the receiver.
    pub(crate) fn deliver(&mut self, number: u8, life: u8) -> Result<(), Rule> {
        let number = usize::from(number);
        if self.fates[number].delivered.is_some() {
            return Err(Rule::Twice);
        }
        if self.fates[number..].iter().any(|fate| fate.delivered.is_some()) {
            return Err(Rule::Order);
        }
        let open = |fate: &MessageFate| fate.delivered.is_none() && fate.report == Report::Nothing;
        if self.fates[..number].iter().any(open) {
            return Err(Rule::Gap);
        }
        self.fates[number].delivered = Some(life);
        Ok(())
    }

    /// The sender's program learns what has become of a message.
    pub(crate) fn report(&mut self, number: u8, report: Report) -> Result<(), Rule> {
        let fate = &mut self.fates[usize::from(number)];
        if fate.report != Report::Nothing {
            return Err(Rule::Reported);
        }
        fate.report = report;
        if report == Report::Done && fate.delivered.is_none() {
            return Err(Rule::Undelivered);
        }
        Ok(())
    }

    /// The sender's program has died: no report can reach it.
    pub(crate) fn forget(&mut self) {
        for fate in self.fates.iter_mut().filter(|fate| fate.report == Report::Nothing) {
            fate.report = Report::Forgotten;
        }
    }

    /// Everything was sent and reported.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 && self.fates.iter().all(|fate| fate.report != Report::Nothing)
    }

    /// Everything was sent, delivered and reported so.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.fates.iter().all(|fate| fate.report == Report::Done)
    }

    /// The last message was delivered and reported so.
    pub(crate) fn last_is_done(&self) -> bool {
        self.fates.last().is_some_and(|fate| fate.report == Report::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: u8) -> Flow {
        let mut flow = Flow::new(0, 1, count);
        (0..count).for_each(|number| assert_eq!(flow.send(), number));
        flow
    }

    #[test]
    fn what_is_delivered_twice_or_too_late_or_too_early_is_noticed() {
        let mut flow = sent(3);
        assert_eq!(flow.clone().deliver(1, 0), Err(Rule::Gap));
        assert_eq!(flow.deliver(0, 0), Ok(()));
        assert_eq!(flow.clone().deliver(0, 1), Err(Rule::Twice));
        assert_eq!(flow.report(1, Report::Failed), Ok(()));
        assert_eq!(flow.deliver(2, 0), Ok(()), "1 has failed");
        assert_eq!(flow.deliver(1, 0), Err(Rule::Order));
    }

    #[test]
    fn what_is_reported_twice_or_wrongly_is_noticed() {
        let mut flow = sent(2);
        assert_eq!(flow.clone().report(0, Report::Done), Err(Rule::Undelivered));
        assert_eq!(flow.deliver(0, 0), Ok(()));
        assert_eq!(flow.report(0, Report::Done), Ok(()));
        assert_eq!(flow.clone().report(0, Report::Failed), Err(Rule::Reported));
        assert!(!flow.is_over());
        flow.forget();
        assert!(flow.is_over() && !flow.is_done() && !flow.last_is_done());
    }
}
