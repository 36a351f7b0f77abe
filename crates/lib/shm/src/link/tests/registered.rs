//! Registered memory that neighbours use.

use super::*;
use crate::access_words::{AccessCounts, WORDS};
use crate::region_messages::{Ask, Permit};
use crate::{DirectAccess, DirectRights, SharedBuffer};

const BOTH: DirectRights = DirectRights { read: true, write: true };
const READ: DirectRights = DirectRights { read: true, write: false };

fn write(at: &mut ShmLink<SimLink>, to: MacAddr, place: (u64, u64), bytes: &[u8]) -> bool {
    at.access(to, place, DirectAccess::Write(bytes), 0)
}

fn read(
    at: &mut ShmLink<SimLink>,
    from: MacAddr,
    place: (u64, u64),
    len: usize,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    at.access(from, place, DirectAccess::Read(&mut bytes), 0).then_some(bytes)
}

/// Asks for a region, and waits for the answer.
fn ask(asking: &mut ShmLink<SimLink>, owner: &mut ShmLink<SimLink>, region: u64) {
    assert_eq!(read(asking, owner.info().mac, (region, 0), 1), None, "it is not mapped yet");
    owner.look();
    asking.look();
}

fn mapped(link: &ShmLink<SimLink>) -> usize {
    link.neighbours.mapped()
}

#[test]
fn a_region_is_used_as_far_as_it_goes_and_its_rights_allow_until_it_is_taken_back() {
    let (mut a, mut b) = TestNetwork::new().pair();
    let at_b = b.info().mac;
    let (buffer, fixed) = (SharedBuffer::new(100).unwrap(), SharedBuffer::new(100).unwrap());
    fixed.write(10, b"fixed");
    b.lend(7, buffer.part(10, 50).unwrap(), BOTH);
    b.lend(8, fixed.part(10, 5).unwrap(), READ);
    ask(&mut a, &mut b, 7);
    ask(&mut a, &mut b, 8);
    ask(&mut a, &mut b, 9);
    assert!(write(&mut a, at_b, (7, 45), b"hello") && !write(&mut a, at_b, (7, 46), b"hello"));
    assert!(!write(&mut a, at_b, (7, u64::MAX), b"hello"));
    // With a rest that does not fit, nothing is written.
    assert!(!a.access(at_b, (7, 0), DirectAccess::Write(b"hello"), 46));
    let mut bytes = [0; 50];
    buffer.read(10, &mut bytes);
    assert_eq!((&bytes[..45], &bytes[45..]), (&[0; 45][..], &b"hello"[..]));
    assert_eq!(read(&mut a, at_b, (8, 0), 5).as_deref(), Some(&b"fixed"[..]));
    assert!(!write(&mut a, at_b, (8, 0), b"f") && read(&mut a, at_b, (8, 1), 5).is_none());
    assert!(read(&mut a, at_b, (9, 0), 1).is_none(), "nobody has it");
    assert_eq!(b.uses(Some(7)), AccessCounts { writes: 1, reads: 0 });
    assert_eq!(b.uses(None), AccessCounts { writes: 1, reads: 1 });
    assert_eq!(b.take_back(7), Some(AccessCounts { writes: 1, reads: 0 }));
    assert_eq!(b.take_back(7), None);
    assert!(!write(&mut a, at_b, (7, 0), b"late"));
    buffer.read(10, &mut bytes[..4]);
    assert_eq!(&bytes[..4], &[0; 4]);
    assert_eq!((mapped(&a), b.uses(None).writes), (1, 1));
    // What is registered under the key later is another memory.
    b.lend(7, fixed.part(0, 12).unwrap(), BOTH);
    ask(&mut a, &mut b, 7);
    assert!(write(&mut a, at_b, (7, 0), b"new") && b.uses(Some(7)).writes == 1);
}

#[test]
fn what_is_not_permitted_any_more_is_unmapped_without_an_access() {
    let (mut a, mut b) = TestNetwork::new().pair();
    b.lend(7, SharedBuffer::new(100).unwrap(), BOTH);
    ask(&mut a, &mut b, 7);
    assert_eq!(mapped(&a), 1);
    b.take_back(7);
    a.neighbours.pass_a_second();
    a.look();
    assert_eq!(mapped(&a), 0);
}

#[test]
fn memory_is_the_owners_alone_when_its_endpoint_or_the_neighbour_is_gone() {
    let (mut a, mut b) = TestNetwork::new().pair();
    let at_b = b.info().mac;
    let buffer = SharedBuffer::new(100).unwrap();
    b.lend(7, buffer.clone(), BOTH);
    ask(&mut a, &mut b, 7);
    assert!(write(&mut a, at_b, (7, 0), b"one"));
    drop(b);
    assert!(!write(&mut a, at_b, (7, 0), b"two"), "before it has looked");
    a.look();
    assert!(!write(&mut a, at_b, (7, 0), b"two") && mapped(&a) == 0);
    let mut bytes = [0; 3];
    buffer.read(0, &mut bytes);
    assert_eq!(&bytes, b"one");
    // The other way round.
    let (mut a, mut b) = TestNetwork::new().pair();
    let at_b = b.info().mac;
    b.lend(7, buffer, BOTH);
    ask(&mut a, &mut b, 7);
    assert!(write(&mut a, at_b, (7, 0), b"two"));
    drop(a);
    b.look();
    suite::drain(&mut b);
    assert_eq!(b.uses(None), AccessCounts { writes: 1, reads: 0 }, "it is counted");
    assert_eq!(b.take_back(7), Some(AccessCounts { writes: 1, reads: 0 }));
}

/// A neighbour that was not asked, and one that asks for nonsense.
#[test]
fn nonsense_about_regions_maps_nothing_and_harms_nobody() {
    let node = TestNetwork::new();
    let (mut a, mut b) = node.pair();
    let (memory, fd) = SharedMemory::create("gigae-test", WORDS).unwrap();
    // A page of another length.
    let (_short, short) = SharedMemory::create("gigae-test", 8).unwrap();
    b.lend(7, SharedBuffer::new(100).unwrap(), BOTH);
    let sockets = |link: &ShmLink<SimLink>| -> Vec<OwnedFd> {
        link.neighbours.connections().map(|socket| socket.try_clone().unwrap()).collect()
    };
    for socket in sockets(&a) {
        for page in [None, Some(short.as_fd()), Some(fd.as_fd()), Some(fd.as_fd())] {
            for region in [7, 0, u64::MAX] {
                Ask::send(&socket, region, page).unwrap();
            }
        }
    }
    b.look();
    b.look();
    // Every word of the page is the neighbour's: the owner may wait only while it is connected.
    memory.words().iter().for_each(|word| word.store(1, Ordering::Relaxed));
    for socket in sockets(&b) {
        let (slot, number, start, len, words) = (0, 1, 0, 64, 8);
        let permit = Permit { region: 7, slot, number, start, len, words, rights: BOTH };
        permit.send(&socket, short.as_fd()).unwrap();
    }
    a.look();
    assert_eq!(mapped(&a), 0, "it has asked for nothing");
    let at_b = b.info().mac;
    send(&mut a, at_b, 1);
    assert_eq!(suite::drain(&mut b), 1);
    drop(a);
    b.take_back(7);
}
