//! Who measures with whom, and when.

/// Shifts of the bisection: so many ways of joining the two halves are tried at most.
pub const MOST_SHIFTS: usize = 4;

/// Senders to one node at once. More would take a thread each at the receiver, and a port is full
/// long before.
pub const MOST_SENDERS: usize = 64;

/// All pairs in rounds in which no node has two (a 1-factorisation, by the circle method). Node 0
/// stays, and the others go round it. With an odd number one rests in each round.
///
/// In a pair, the first node measures round trips. Each node is the first one as often as the
/// second, except for two times at most.
pub fn pairs(nodes: usize) -> Vec<Vec<(usize, usize)>> {
    if nodes < 2 {
        return Vec::new();
    }
    // With an odd number, one more that does not exist: its partner rests.
    let places = nodes + nodes % 2;
    let around = places - 1;
    let on_circle = |position: usize, round: usize| 1 + (position + round) % around;
    (0..around)
        .map(|round| {
            let fixed = (0, on_circle(0, round), round % 2 == 0);
            let others = (1..places / 2).map(|step| {
                (on_circle(step, round), on_circle(around - step, round), step % 2 == 0)
            });
            let all = std::iter::once(fixed).chain(others);
            let real = all.filter(|pair| pair.0 < nodes && pair.1 < nodes);
            real.map(|(a, b, is_in_order)| if is_in_order { (a, b) } else { (b, a) }).collect()
        })
        .collect()
}

/// Pairs across two halves of the nodes, in their order; with an odd number the middle one rests.
pub fn bisection(nodes: usize, shift: usize) -> Vec<(usize, usize)> {
    let half = nodes / 2;
    (0..half).map(|node| (node, nodes - half + (node + shift) % half)).collect()
}

/// How often the bisection is measured, each time with other pairs.
pub fn shifts(nodes: usize) -> usize {
    (nodes / 2).min(MOST_SHIFTS)
}

/// Who sends to a node at once: all others, or as many of them as are allowed, evenly spread.
pub fn senders(nodes: usize, to: usize) -> Vec<usize> {
    let others: Vec<usize> = (0..nodes).filter(|&node| node != to).collect();
    let count = others.len().min(MOST_SENDERS);
    (0..count).map(|number| others[number * others.len() / count]).collect()
}

/// The place of a pair in lists of all pairs: (0, 1), (0, 2), ..., (1, 2), ... The first node is
/// the smaller one.
pub fn index(nodes: usize, a: usize, b: usize) -> usize {
    let (a, b) = (a.min(b), a.max(b));
    a * (2 * nodes - a - 1) / 2 + b - a - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_meets_once_and_no_node_is_twice_in_a_round() {
        for nodes in 2..=33 {
            let rounds = pairs(nodes);
            assert_eq!(rounds.len(), nodes - 1 + nodes % 2, "{nodes}");
            let mut met = HashSet::new();
            for round in &rounds {
                assert_eq!(round.len(), nodes / 2, "{nodes}");
                let busy: HashSet<_> = round.iter().flat_map(|&(a, b)| [a, b]).collect();
                assert_eq!(busy.len(), 2 * round.len(), "{nodes}: {round:?}");
                met.extend(round.iter().map(|&(a, b)| (a.min(b), a.max(b))));
            }
            assert_eq!(met.len(), nodes * (nodes - 1) / 2, "{nodes}");
            for node in 0..nodes {
                let all = || rounds.iter().flatten();
                let first = all().filter(|pair| pair.0 == node).count();
                let second = all().filter(|pair| pair.1 == node).count();
                assert!(first.abs_diff(second) <= 2, "{node} of {nodes}: {first} {second}");
            }
            let indices: HashSet<_> = met.iter().map(|&(a, b)| index(nodes, b, a)).collect();
            assert_eq!(indices, (0..met.len()).collect(), "{nodes}");
        }
        assert!(pairs(1).is_empty() && pairs(0).is_empty());
    }

    #[test]
    fn the_halves_have_no_node_in_common() {
        for nodes in 2..=9 {
            for shift in 0..shifts(nodes) {
                let pairs = bisection(nodes, shift);
                let busy: HashSet<_> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
                assert_eq!((pairs.len(), busy.len()), (nodes / 2, nodes / 2 * 2));
                assert!(pairs.iter().all(|&(a, b)| a < nodes / 2 && b >= nodes.div_ceil(2)));
            }
        }
        assert_ne!(bisection(6, 0), bisection(6, 1));
    }

    #[test]
    fn all_others_send_or_as_many_as_are_allowed() {
        assert_eq!(senders(4, 2), [0, 1, 3]);
        let many = senders(1000, 0);
        let each: HashSet<_> = many.iter().collect();
        assert_eq!((many.len(), each.len()), (MOST_SENDERS, MOST_SENDERS));
        assert!(!many.contains(&0) && many.iter().any(|&node| node > 900));
    }
}
