//! Which host, link or switch port is slow, in sentences. All of it follows from the figures of
//! pairs alone.
//!
//! A pair is *slow* if its figure is worse than that of a good pair by more than [`FACTOR`]. A good
//! pair is one at the `GOOD` quantile: so a slow part of the cluster does not become the rule,
//! and one lucky pair does not, either.
//!
//! | slow are | sentence names |
//! |---|---|
//! | all pairs of a host, both ways | the host |
//! | all pairs of a host, one way | its cable or switch port |
//! | nearly all pairs between two groups, both ways or one, and few within them | the switch or uplink between them |
//! | the pairs within a group | the switch that they share |
//! | a pair alone | the pair |

use crate::results::ClusterResults;
use crate::rounds;
use gigae_eval_model::number::short;
use std::collections::BTreeMap;

/// A figure that is worse by this factor is slow. Repetitions of one pair differ by less on a
/// network that carries nothing else.
pub const FACTOR: f64 = 1.5;

/// A round trip that is longer by less than this, in microseconds, is not slow.
const LEAST_US: f64 = 2.0;

/// Which of all pairs is a good one: this share of them are at least as good.
const GOOD: f64 = 0.1;

/// A host with this share of slow pairs is slow.
const MOST_PAIRS: f64 = 0.8;

/// Two sides of a slow uplink may have this share of slow pairs within, which have other causes.
const MOST_WITHIN: f64 = 0.2;

/// Ways to divide hosts that are tried: those that most hosts agree on.
const MOST_DIVISIONS: usize = 16;

/// Pairs within a group that must be slow for the group to be.
const DENSE: f64 = 0.8;

/// Fewest hosts of a slow group: two are a pair.
const GROUP: usize = 3;

/// Pairs that are named one by one, and names of a group.
const MOST_NAMED: usize = 8;

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Trip,
    Rate,
}

/// A table of which pairs are slow: from, to.
#[derive(Clone)]
struct Slow {
    hosts: usize,
    cells: Vec<Cell>,
    good: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// Not measured.
    Unknown,
    Fine,
    /// By this factor worse than a good one.
    Slow(f64),
}

impl Slow {
    /// `None` if there are too few figures to say what is good.
    fn of(
        hosts: usize,
        measure: Measure,
        figure: impl Fn(usize, usize) -> Option<f64>,
    ) -> Option<Self> {
        let pairs = || (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
        let value = |(a, b): (usize, usize)| if a == b { None } else { figure(a, b) };
        let mut all: Vec<f64> = pairs().filter_map(value).collect();
        if hosts < 3 || all.is_empty() {
            return None;
        }
        all.sort_by(f64::total_cmp);
        if measure == Measure::Rate {
            all.reverse();
        }
        let good = all[((all.len() - 1) as f64 * GOOD) as usize];
        let cell = |pair| match value(pair) {
            None => Cell::Unknown,
            Some(value) => {
                let worse = match measure {
                    Measure::Trip if value < good + LEAST_US => 1.0,
                    Measure::Trip => value / good.max(f64::MIN_POSITIVE),
                    Measure::Rate => good / value.max(f64::MIN_POSITIVE),
                };
                if worse > FACTOR { Cell::Slow(worse) } else { Cell::Fine }
            }
        };
        Some(Self { hosts, cells: pairs().map(cell).collect(), good })
    }

    fn at(&self, from: usize, to: usize) -> Cell {
        self.cells[from * self.hosts + to]
    }

    fn is_slow(&self, from: usize, to: usize) -> bool {
        matches!(self.at(from, to), Cell::Slow(_))
    }

    fn any_way(&self, a: usize, b: usize) -> bool {
        self.is_slow(a, b) || self.is_slow(b, a)
    }

    /// Whether a pair is fine at least one way.
    fn is_fine(&self, a: usize, b: usize) -> bool {
        self.at(a, b) == Cell::Fine || self.at(b, a) == Cell::Fine
    }

    /// The typical factor of the slow ones among these.
    fn factor(&self, pairs: impl Iterator<Item = (usize, usize)>) -> f64 {
        let factor = |(a, b)| match self.at(a, b) {
            Cell::Slow(factor) => Some(factor),
            _ => None,
        };
        let mut all: Vec<f64> = pairs.filter_map(factor).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(1.0)
    }

    /// Groups of hosts that reach each other without a slow pair, over others or not; the largest
    /// first.
    fn parts(&self, hosts: &[usize]) -> Vec<Vec<usize>> {
        self.connected(hosts, |a, b| self.is_fine(a, b))
    }

    /// The same of hosts that reach each other without a slow pair in either direction.
    fn parts_both_ways(&self, hosts: &[usize]) -> Vec<Vec<usize>> {
        self.connected(hosts, |a, b| self.is_fine(a, b) && !self.any_way(a, b))
    }

    /// The same, and groups that only few good pairs join across a slow uplink are apart.
    fn sides(&self, hosts: &[usize]) -> Vec<Vec<usize>> {
        let mut left = self.parts_both_ways(hosts);
        let mut sides = Vec::new();
        while let Some(part) = left.pop() {
            match self.division(&part) {
                Some(both) => left.extend(both),
                None => sides.push(part),
            }
        }
        sides.sort_by_key(|side| (std::cmp::Reverse(side.len()), side.first().copied()));
        sides
    }

    /// The two sides of a slow uplink within a group. A host has good pairs with all hosts of its
    /// side and few others, so nearly all hosts name the same sides.
    fn division(&self, hosts: &[usize]) -> Option<[Vec<usize>; 2]> {
        let joined = |a, b| a == b || self.is_fine(a, b) && !self.any_way(a, b);
        let mut named: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for &host in hosts {
            let with_first = joined(host, hosts[0]);
            let side = hosts.iter().copied().filter(|&other| joined(host, other) != with_first);
            *named.entry(side.collect()).or_default() += 1;
        }
        let mut named: Vec<(Vec<usize>, usize)> = named.into_iter().collect();
        named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let tried = named.into_iter().take(MOST_DIVISIONS).filter_map(|(side, _)| {
            let other: Vec<usize> =
                hosts.iter().copied().filter(|host| !side.contains(host)).collect();
            Some((self.misfits(&side, &other)?, [other, side]))
        });
        tried.min_by_key(|(misfits, _)| *misfits).map(|(_, both)| both)
    }

    /// Ways that an uplink between two sides does not explain: good ones across it in its slow
    /// directions, and slow ones within. `None` if there is no such uplink.
    fn misfits(&self, one: &[usize], other: &[usize]) -> Option<usize> {
        if one.len().min(other.len()) < 2 {
            return None;
        }
        let within = [ways(one, one), ways(other, other)];
        if within.iter().any(|ways| self.share_of(ways) > MOST_WITHIN) {
            return None;
        }
        let across = [ways(one, other), ways(other, one)];
        let across: Vec<_> =
            across.into_iter().filter(|ways| self.share_of(ways) >= MOST_PAIRS).collect();
        let is_slow = |&&(a, b): &&(usize, usize)| self.is_slow(a, b);
        let is_good = |&&(a, b): &&(usize, usize)| self.at(a, b) == Cell::Fine;
        (!across.is_empty()).then(|| {
            across.iter().flatten().filter(is_good).count()
                + within.iter().flatten().filter(is_slow).count()
        })
    }

    /// The share of these ways that are slow, of those that were measured.
    fn share_of(&self, ways: &[(usize, usize)]) -> f64 {
        let known = ways.iter().filter(|&&(a, b)| self.at(a, b) != Cell::Unknown).count();
        let slow = ways.iter().filter(|&&(a, b)| self.is_slow(a, b)).count();
        if known == 0 { 0.0 } else { slow as f64 / known as f64 }
    }

    /// Forgets these ways: a sentence names their cause.
    fn forget(&mut self, ways: &[(usize, usize)]) {
        for &(a, b) in ways {
            self.cells[a * self.hosts + b] = Cell::Unknown;
        }
    }

    fn connected(&self, hosts: &[usize], joined: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
        let mut left: Vec<usize> = hosts.to_vec();
        let mut parts = Vec::new();
        while let Some(first) = left.first().copied() {
            left.remove(0);
            let mut part = vec![first];
            let mut next = 0;
            while next < part.len() {
                let at = part[next];
                let (found, rest) = left.iter().partition(|&&other| joined(at, other));
                part.extend::<Vec<usize>>(found);
                left = rest;
                next += 1;
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        parts
    }
}

/// Every ordered pair from one group to another.
fn ways(from: &[usize], to: &[usize]) -> Vec<(usize, usize)> {
    let all = from.iter().flat_map(|&a| to.iter().map(move |&b| (a, b)));
    all.filter(|(a, b)| a != b).collect()
}

/// Every ordered pair of two groups, both ways.
fn between(one: &[usize], other: &[usize]) -> Vec<(usize, usize)> {
    ways(one, other).into_iter().chain(ways(other, one)).collect()
}

/// What is slow, in sentences; a sentence that nothing is, if that is so.
pub fn findings(results: &ClusterResults) -> Vec<String> {
    let hosts = results.hosts.len();
    let mut sentences = Vec::new();
    if results.machines < hosts {
        sentences.push(format!(
            "These {hosts} hosts are namespaces on {} machine(s). Hosts of one machine share its processors, so the differences below may be of the machine and not of the network.",
            results.machines
        ));
    }
    for one in &results.transports {
        let trips = Slow::of(hosts, Measure::Trip, |a, b| one.trip(hosts, a, b));
        let rates = Slow::of(hosts, Measure::Rate, |a, b| one.rate(hosts, a, b));
        let title = gigae_eval_model::transport::by_name(&one.name).map_or("", |one| one.title);
        for (measure, slow) in [(Measure::Trip, trips), (Measure::Rate, rates)] {
            match slow {
                Some(slow) => {
                    let said = Words { results, title, measure, slow: &slow }.sentences();
                    sentences.extend(said);
                }
                None if hosts < 3 => {}
                None => {
                    let what = if measure == Measure::Trip { "round trip" } else { "stream" };
                    sentences.push(format!("{title}: no {what} could be measured."));
                }
            }
        }
    }
    if results.failed > 0 {
        let first = results.failures.first();
        let first = first.map_or_else(String::new, |one| {
            format!("; the first: {} from {} to {}: {}", one.what, one.from, one.to, one.reason)
        });
        sentences.push(format!("{} measurements failed{first}.", results.failed));
    }
    if hosts < 3 {
        sentences.push("Two hosts have one pair, so there is nothing to compare it with.".into());
    }
    if sentences.len() == usize::from(results.machines < hosts) {
        sentences.push(format!(
            "No host, link or switch port is slow: no pair is worse than a good one by a factor of more than {FACTOR}."
        ));
    }
    sentences
}

/// Sentences about one figure.
struct Words<'a> {
    results: &'a ClusterResults,
    title: &'a str,
    measure: Measure,
    slow: &'a Slow,
}

impl Words<'_> {
    fn name(&self, host: usize) -> &str {
        &self.results.hosts[host].name
    }

    fn names(&self, hosts: &[usize]) -> String {
        let mut names: Vec<&str> =
            hosts.iter().take(MOST_NAMED).map(|&host| self.name(host)).collect();
        let more = hosts.len().saturating_sub(MOST_NAMED);
        let last = match more {
            0 => names.pop().unwrap_or_default().to_owned(),
            more => format!("{more} more"),
        };
        if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
    }

    /// How bad it is.
    fn worse(&self, pairs: impl Iterator<Item = (usize, usize)>) -> String {
        let (factor, good) = (self.slow.factor(pairs), self.slow.good);
        let [factor, good] = [short(factor), short(good)];
        match self.measure {
            Measure::Trip => {
                format!("a round trip takes {factor} times as long as the {good} us of a good pair")
            }
            Measure::Rate => {
                format!("a stream carries 1/{factor} of the {good} MB/s of a good pair")
            }
        }
    }

    fn sentences(&self) -> Vec<String> {
        let slow = self.slow;
        let all: Vec<usize> = (0..slow.hosts).collect();
        let mut said = Vec::new();
        let parts = slow.parts(&all);
        let (main, others) =
            parts.split_first().map_or((&all[..], &[][..]), |(main, others)| (&main[..], others));
        for part in others {
            let rest: Vec<usize> =
                all.iter().copied().filter(|host| !part.contains(host)).collect();
            // A host of which nothing was measured is not slow; its failures are said.
            let pairs = between(part, &rest);
            if !pairs.iter().any(|&(a, b)| slow.is_slow(a, b)) {
                continue;
            }
            let worse = self.worse(pairs.into_iter());
            said.push(match part[..] {
                [host] => format!(
                    "{}: {} is slow with every other host: {worse}. Look at the host itself, its cable and its switch port.",
                    self.title, self.name(host)
                ),
                _ => format!(
                    "{}: the {} hosts {} are slow with all others, but not among themselves: {worse}. Look at the switch or uplink between them and the others.",
                    self.title, part.len(), self.names(part)
                ),
            });
        }
        let mut unexplained = slow.clone();
        for ways in self.groups(main, &mut said) {
            unexplained.forget(&ways);
        }
        Words { slow: &unexplained, ..*self }.one_way(main, &mut said);
        said
    }

    /// Groups of a part that are slow with all others of it in one direction, and not among
    /// themselves. The ways that this explains.
    fn groups(&self, main: &[usize], said: &mut Vec<String>) -> Vec<Vec<(usize, usize)>> {
        let slow = self.slow;
        let mut explained = Vec::new();
        for group in slow.sides(main).into_iter().skip(1).filter(|one| one.len() > 1) {
            let others: Vec<usize> =
                main.iter().copied().filter(|host| !group.contains(host)).collect();
            let [out, into] = [ways(&group, &others), ways(&others, &group)];
            let (is_out, is_into) =
                (slow.share_of(&out) >= MOST_PAIRS, slow.share_of(&into) >= MOST_PAIRS);
            let (way, look) = match (is_out, is_into) {
                (false, false) => continue,
                (true, true) => ("with nearly all others, but not", ""),
                (true, false) => (
                    "in what they send to the others, but not in what they receive, nor",
                    ", in the direction to the others",
                ),
                (false, true) => (
                    "in what they receive from the others, but not in what they send, nor",
                    ", in the direction from the others",
                ),
            };
            let of = [(is_out, out), (is_into, into)].into_iter().filter(|(is_slow, _)| *is_slow);
            let of: Vec<(usize, usize)> = of.flat_map(|(_, ways)| ways).collect();
            said.push(format!(
                "{}: the {} hosts {} are slow {way} among themselves: {}. Look at the switch or uplink between them and the others{look}.",
                self.title, group.len(), self.names(&group), self.worse(of.iter().copied())
            ));
            explained.push(of);
        }
        explained
    }

    /// Hosts of a part of which all pairs are slow one way, and what remains.
    fn one_way(&self, main: &[usize], said: &mut Vec<String>) {
        let slow = self.slow;
        let mut rest = main.to_vec();
        if main.len() >= 3 {
            for &host in main {
                let [out, into] = [ways(&[host], main), ways(main, &[host])]
                    .map(|ways| slow.share_of(&ways) >= MOST_PAIRS);
                if !out && !into {
                    continue;
                }
                let way = match (out, into) {
                    (true, true) => "with nearly every other host",
                    (true, false) => "in what it sends, but not in what it receives",
                    _ => "in what it receives, but not in what it sends",
                };
                let pairs = main
                    .iter()
                    .filter(|other| **other != host)
                    .map(|&other| if out { (host, other) } else { (other, host) });
                let look = if out && into {
                    "the host itself, its cable and its switch port"
                } else {
                    "its cable and its switch port"
                };
                said.push(format!(
                    "{}: {} is slow {way}: {}. Look at {look}.",
                    self.title,
                    self.name(host),
                    self.worse(pairs)
                ));
                rest.retain(|other| *other != host);
            }
        }
        for group in slow.connected(&rest, |a, b| slow.any_way(a, b)) {
            if group.len() >= GROUP && self.density(&group) >= DENSE {
                let pairs = between(&group, &group);
                said.push(format!(
                    "{}: the {} hosts {} are slow among themselves, but not with others: {}. Look at the switch that they share.",
                    self.title, group.len(), self.names(&group), self.worse(pairs.into_iter())
                ));
            } else {
                self.single(&group, said);
            }
        }
    }

    fn density(&self, group: &[usize]) -> f64 {
        let pairs = between(group, group);
        let slow = pairs.iter().filter(|&&(a, b)| self.slow.any_way(a, b)).count();
        slow as f64 / pairs.len() as f64
    }

    /// Pairs that are slow by themselves.
    fn single(&self, group: &[usize], said: &mut Vec<String>) {
        let slow = self.slow;
        let pairs: Vec<(usize, usize)> = group
            .iter()
            .enumerate()
            .flat_map(|(at, &a)| group[at + 1..].iter().map(move |&b| (a, b)))
            .filter(|&(a, b)| slow.any_way(a, b))
            .collect();
        for &(a, b) in pairs.iter().take(MOST_NAMED) {
            let way = match (slow.is_slow(a, b), slow.is_slow(b, a)) {
                (true, true) => format!("between {} and {}", self.name(a), self.name(b)),
                (true, false) => format!("from {} to {}", self.name(a), self.name(b)),
                _ => format!("from {} to {}", self.name(b), self.name(a)),
            };
            let both = [(a, b), (b, a)].into_iter();
            said.push(format!(
                "{}: only the way {way} is slow: {}. Look at the link between their switches, and measure again: other traffic may have been on it.",
                self.title, self.worse(both)
            ));
        }
        if pairs.len() > MOST_NAMED {
            said.push(format!(
                "{}: {} more pairs of these hosts are slow by themselves.",
                self.title,
                pairs.len() - MOST_NAMED
            ));
        }
    }
}

/// Of each host, how many of its pairs have a slow figure of any transport.
pub fn slow_pairs(results: &ClusterResults) -> Vec<usize> {
    let hosts = results.hosts.len();
    let mut is_slow = vec![false; hosts * hosts.saturating_sub(1) / 2];
    for one in &results.transports {
        let trips = Slow::of(hosts, Measure::Trip, |a, b| one.trip(hosts, a, b));
        let rates = Slow::of(hosts, Measure::Rate, |a, b| one.rate(hosts, a, b));
        for slow in [trips, rates].into_iter().flatten() {
            for a in 0..hosts {
                for b in a + 1..hosts {
                    is_slow[rounds::index(hosts, a, b)] |= slow.any_way(a, b);
                }
            }
        }
    }
    let pairs = |a: usize| (0..hosts).filter(move |&b| b != a);
    (0..hosts).map(|a| pairs(a).filter(|&b| is_slow[rounds::index(hosts, a, b)]).count()).collect()
}

#[cfg(test)]
mod tests;
