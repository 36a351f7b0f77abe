//! The forms that are checked: some that take seconds, for every test run, and many.

use crate::coverage::CoverageGoal;
use crate::form::{Budget, Form};
use std::time::Duration;

const NONE: Budget =
    Budget { lost: 0, late: 0, copied: 0, early: 0, restarts: 0, cuts: 0, closes: 0 };

/// How a session comes up, once or twice at the same time.
pub fn beginnings() -> Vec<Form> {
    vec![
        Form::new("begin, 3 lost", 2)
            .faults(Budget { lost: 3, ..NONE })
            .reaches(&[CoverageGoal::Repeated, CoverageGoal::Wrapped]),
        Form::new("begin, late and doubled", 2)
            .faults(Budget { late: 1, copied: 1, ..NONE })
            .reaches(&[CoverageGoal::Repeated, CoverageGoal::Duplicate]),
        Form::new("begin at once, 1 lost, 1 late", 1)
            .and_back(1)
            .faults(Budget { lost: 1, late: 1, ..NONE })
            .reaches(&[CoverageGoal::Repeated]),
        Form::new("three nodes, 1 lost", 1).and_a_third().faults(Budget { lost: 1, ..NONE }),
    ]
}

/// Windows and credit in a session that is up.
pub fn windows() -> Vec<Form> {
    vec![
        Form::new("1 in flight, 3 lost", 3)
            .up()
            .windows(1, 1, 0)
            .faults(Budget { lost: 3, ..NONE }),
        Form::new("credit 1, go-back-N, 2 lost", 3)
            .up()
            .windows(2, 1, 0)
            .ack_every(1)
            .faults(Budget { lost: 2, ..NONE })
            .reaches(&[CoverageGoal::Stopped, CoverageGoal::Probed, CoverageGoal::Wrapped]),
        Form::new("4 in flight, go-back-N, 1 late", 3)
            .up()
            .windows(4, 4, 0)
            .faults(Budget { late: 1, ..NONE })
            .reaches(&[CoverageGoal::OutOfOrder, CoverageGoal::Duplicate]),
        Form::new("4 in flight, keeps 2, 1 late", 3)
            .up()
            .windows(4, 4, 2)
            .faults(Budget { late: 1, ..NONE })
            .reaches(&[CoverageGoal::Repeated, CoverageGoal::Duplicate]),
        Form::new("timers too early", 2)
            .windows(2, 1, 2)
            .faults(Budget { lost: 1, early: 2, ..NONE })
            .reaches(&[CoverageGoal::Stopped, CoverageGoal::Duplicate]),
        Form::new("busy nodes, 1 lost", 3)
            .up()
            .lazy()
            .windows(2, 2, 2)
            .faults(Budget { lost: 1, ..NONE })
            .reaches(&[CoverageGoal::Stopped, CoverageGoal::Repeated]),
    ]
}

/// Nodes that restart, close, or are taken for lost.
pub fn lives() -> Vec<Form> {
    vec![
        Form::new("restart, 1 lost, 1 late", 2)
            .faults(Budget { restarts: 1, lost: 1, late: 1, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed, CoverageGoal::Wrapped]),
        Form::new("restart, 1 doubled, both ways", 1)
            .and_back(1)
            .faults(Budget { restarts: 1, copied: 1, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed]),
        Form::new("two restarts", 2)
            .faults(Budget { restarts: 2, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed]),
        Form::new("close, 1 lost", 2)
            .faults(Budget { closes: 1, lost: 1, ..NONE })
            .reaches(&[CoverageGoal::Failed]),
        Form::new("peer timeout, 2 lost", 2)
            .peer_timeout(Duration::from_micros(1_500))
            .faults(Budget { lost: 2, ..NONE })
            .reaches(&[CoverageGoal::Failed]),
    ]
}

/// Two links, which are two paths of one session.
pub fn paths() -> Vec<Form> {
    let form = |name: &str| Form::new(name, 2).two_paths();
    vec![
        form("two paths, 1 cut").up().faults(Budget { cuts: 1, ..NONE }),
        form("two paths, 1 cut, 1 early").up().faults(Budget { cuts: 1, early: 1, ..NONE }),
        form("two paths, 1 lost")
            .faults(Budget { lost: 1, ..NONE })
            .reaches(&[CoverageGoal::Repeated]),
        form("two paths, 1 restart")
            .faults(Budget { restarts: 1, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed]),
    ]
}

/// Two paths on which frames are lost, late, doubled, or cut besides. A path is cut only once the
/// session is up: the first must work until then.
fn faults_on_paths() -> Vec<Form> {
    let form = |what: &str, messages, budget| {
        Form::new(format!("two paths, {what}"), messages).two_paths().faults(budget)
    };
    let up = |what: &str, budget| form(&format!("up, {what}"), 2, budget).up();
    vec![
        form("2 lost", 2, Budget { lost: 2, ..NONE }).reaches(&[CoverageGoal::Repeated]),
        form("3 lost", 2, Budget { lost: 3, ..NONE }).reaches(&[CoverageGoal::Repeated]),
        form("3 messages, 2 lost", 3, Budget { lost: 2, ..NONE })
            .reaches(&[CoverageGoal::Repeated]),
        form("1 late", 2, Budget { late: 1, ..NONE }).reaches(&[CoverageGoal::Duplicate]),
        form("1 doubled", 2, Budget { copied: 1, ..NONE }).reaches(&[CoverageGoal::Duplicate]),
        form("1 lost, 1 late", 2, Budget { lost: 1, late: 1, ..NONE }),
        form("1 restart, 1 lost", 1, Budget { restarts: 1, lost: 1, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed]),
        form("1 restart, 1 doubled", 1, Budget { restarts: 1, copied: 1, ..NONE })
            .reaches(&[CoverageGoal::OldEpoch, CoverageGoal::Failed]),
        form("close, 1 lost", 1, Budget { closes: 1, lost: 1, ..NONE }),
        up("2 lost", Budget { lost: 2, ..NONE }).reaches(&[CoverageGoal::Repeated]),
        up("1 lost, 1 late", Budget { lost: 1, late: 1, ..NONE }),
        up("1 lost, 1 doubled", Budget { lost: 1, copied: 1, ..NONE }),
        up("1 lost, 1 early", Budget { lost: 1, early: 1, ..NONE }),
        up("1 cut, 1 lost", Budget { cuts: 1, lost: 1, ..NONE }),
        up("1 cut, 1 late", Budget { cuts: 1, late: 1, ..NONE }),
    ]
}

/// What [`crate::check`] is asked in every test run: some tens of seconds.
pub fn bounded() -> Vec<Form> {
    [beginnings(), windows(), lives(), paths()].into_iter().flatten().collect()
}

/// Every size of windows with every kind of fault: minutes to an hour.
pub fn long() -> Vec<Form> {
    let sizes = [
        (1, 1, 0),
        (2, 1, 0),
        (2, 1, 1),
        (2, 2, 0),
        (2, 2, 2),
        (4, 2, 0),
        (4, 2, 2),
        (4, 4, 0),
        (4, 4, 1),
        (4, 4, 2),
    ];
    let mut forms = bounded();
    forms.extend(faults_on_paths());
    for (send, receive, reorder) in sizes {
        let form = |what: &str, messages| {
            let name = format!("{send}/{receive}/{reorder} {what}");
            Form::new(name, messages).windows(send, receive, reorder)
        };
        forms.extend([
            form("up, 3 lost", 3).up().faults(Budget { lost: 3, ..NONE }),
            form("up, 1 late, 1 lost", 3).up().faults(Budget { late: 1, lost: 1, ..NONE }),
            form("up, both ways, 1 lost", 2).up().and_back(1).faults(Budget { lost: 1, ..NONE }),
            form("up, busy, 1 late", 3).up().lazy().faults(Budget { late: 1, ..NONE }),
            form("up, every Ack, 1 doubled, 1 early", 3).up().ack_every(1).faults(Budget {
                copied: 1,
                early: 1,
                ..NONE
            }),
            form("both ways, 1 lost, 1 late", 1).and_back(1).faults(Budget {
                lost: 1,
                late: 1,
                ..NONE
            }),
            form("1 restart, 1 late, 1 doubled", 2).faults(Budget {
                restarts: 1,
                late: 1,
                copied: 1,
                ..NONE
            }),
            form("2 restarts, 1 lost, both ways", 1).and_back(1).faults(Budget {
                restarts: 2,
                lost: 1,
                ..NONE
            }),
            form("close, 1 restart, 1 late", 2).faults(Budget {
                closes: 1,
                restarts: 1,
                late: 1,
                ..NONE
            }),
        ]);
    }
    forms
}
