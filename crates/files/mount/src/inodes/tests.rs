//! Tests of the files that the kernel knows.

use super::*;
use crate::testing::inode;

fn directory(id: u64) -> Inode {
    inode(Kind::Directory, id, 0)
}

#[test]
fn a_path_has_the_names_by_which_the_kernel_found_a_file() {
    let mut inodes = Inodes::new(b"top".to_vec(), &directory(100));
    let a = inodes.found(ROOT, b"a", &directory(2)).unwrap();
    let b = inodes.found(a, b"\xff", &inode(Kind::File, 3, 7)).unwrap();
    assert_eq!(inodes.path(ROOT).unwrap(), b"top");
    assert_eq!(inodes.path(b).unwrap(), b"top/a/\xff");
    // Renamed at the server.
    inodes.found(ROOT, b"c", &directory(2));
    assert_eq!(inodes.path(b).unwrap(), b"top/c/\xff");
    assert!(Inodes::new(Vec::new(), &directory(5)).path(ROOT).unwrap().is_empty());
    assert!(inodes.is(ROOT, &directory(100)) && !inodes.is(ROOT, &directory(1)));
}

#[test]
fn what_the_kernel_has_forgotten_takes_no_memory() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &directory(2)).unwrap();
    let b = inodes.found(a, b"b", &inode(Kind::File, 3, 7)).unwrap();
    inodes.found(a, b"b", &inode(Kind::File, 3, 7));
    // The path of `b` needs it.
    inodes.forgotten(a, 1);
    assert_eq!(inodes.path(b).unwrap(), b"a/b");
    inodes.forgotten(b, 1);
    assert_eq!(inodes.len(), 3);
    inodes.forgotten(b, 1);
    assert_eq!(inodes.len(), 1);
    // One file has two names. The kernel forgets the directory of the first one.
    let c = inodes.found(ROOT, b"c", &directory(4)).unwrap();
    let d = inodes.found(ROOT, b"d", &directory(5)).unwrap();
    inodes.found(c, b"x", &inode(Kind::File, 6, 7));
    inodes.found(d, b"y", &inode(Kind::File, 6, 7));
    inodes.forgotten(c, 1);
    assert_eq!(inodes.len(), 3, "nothing is beneath it any more");
    inodes.forgotten(6, 2);
    inodes.forgotten(d, 1);
    inodes.forgotten(ROOT, 1);
    assert_eq!(inodes.len(), 1);
}

#[test]
fn what_is_renamed_has_its_new_path_with_all_beneath_it() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &directory(2)).unwrap();
    let b = inodes.found(a, b"b", &directory(3)).unwrap();
    let c = inodes.found(b, b"c", &inode(Kind::File, 4, 7)).unwrap();
    inodes.renamed((a, b"b"), (ROOT, b"d"));
    assert_eq!(inodes.path(c).unwrap(), b"d/c");
    assert_eq!((inodes.named(a, b"b"), inodes.named(ROOT, b"d")), (None, Some(b)));
    inodes.renamed((ROOT, b"missing"), (ROOT, b"x"));
    inodes.forgotten(a, 1);
    inodes.forgotten(c, 1);
    inodes.forgotten(b, 1);
    assert_eq!((inodes.len(), inodes.names.len()), (1, 0));
}

#[test]
fn a_file_that_is_removed_while_it_is_open_is_hidden_until_it_is_closed() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &sized(7, 50)).unwrap();
    inodes.open(a);
    inodes.open(a);
    inodes.wrote(a, 90);
    assert_eq!((inodes.size(a, 50), inodes.size(a, 95), inodes.size(77, 5)), (90, 95, 5));
    inodes.hide(a, ROOT, b".hidden");
    // Another one has its name.
    let b = inodes.found(ROOT, b"a", &inode(Kind::File, 3, 7)).unwrap();
    assert_eq!((inodes.named(ROOT, b"a"), inodes.path(a).unwrap()), (Some(b), b".hidden".into()));
    assert!(!inodes.close(a) && inodes.is_open(a));
    assert_eq!(inodes.hidden(), [a]);
    assert!(inodes.close(a));
    assert_eq!(inodes.unhide(a), [(ROOT, b".hidden".to_vec())]);
    assert_eq!(inodes.unhide(a), []);
    inodes.unhidden(ROOT);
    inodes.is_written(a, 0);
    assert_eq!(inodes.size(a, 50), 50);
    inodes.forgotten(a, 1);
    inodes.forgotten(b, 1);
    assert_eq!((inodes.len(), inodes.names.len()), (1, 0));
}

#[test]
fn no_directory_is_beneath_itself_whatever_a_server_says() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &directory(2)).unwrap();
    let b = inodes.found(a, b"b", &directory(3)).unwrap();
    assert_eq!(inodes.found(b, b"a", &directory(2)), None);
    assert_eq!(inodes.found(b, b"b", &directory(3)), None);
    assert_eq!(inodes.path(b).unwrap(), b"a/b");
    // It may well have moved.
    assert_eq!(inodes.found(ROOT, b"b", &directory(3)), Some(b));
    assert_eq!(inodes.found(b, b"a", &directory(2)), Some(a));
    assert_eq!(inodes.path(a).unwrap(), b"b/a");
}

#[test]
fn a_path_that_is_too_long_for_the_kernel_is_none() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let mut parent = ROOT;
    for id in 2..30 {
        parent = inodes.found(parent, &[b'n'; 255], &directory(id)).unwrap();
    }
    assert_eq!(inodes.path(parent), None);
    assert_eq!(inodes.path(10).unwrap().len(), 9 * 256 - 1);
}

#[test]
fn the_kernel_keeps_bytes_only_of_one_version() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &inode(Kind::File, 2, 7)).unwrap();
    assert!(!inodes.opened(a, 7));
    inodes.read(a, 7);
    assert!(inodes.opened(a, 7));
    assert!(!inodes.opened(a, 8));
    // It changes while it is open.
    inodes.read(a, 9);
    assert!(!inodes.opened(a, 8));
    assert!(inodes.seen(a, &inode(Kind::File, 2, 10)));
    assert!(inodes.seen(a, &inode(Kind::File, 2, 8)));
    assert!(!inodes.seen(a, &inode(Kind::File, 2, 8)));
}

fn sized(version: u64, size: u64) -> Inode {
    let mut inode = inode(Kind::File, 2, version);
    inode.attributes.size = size;
    inode
}

#[test]
fn an_entry_for_which_the_kernel_has_no_room_changes_nothing_that_it_knows() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    assert_eq!(inodes.told(2), None);
    let a = inodes.found(ROOT, b"a", &sized(7, 50)).unwrap();
    let told = inodes.told(a);
    inodes.found(ROOT, b"a", &sized(8, 90));
    inodes.restore(a, told);
    assert_eq!(inodes.told(a), Some((7, 50)));
    // The kernel learns of the change when the file is opened.
    assert!(inodes.seen(a, &sized(8, 90)));
    // One that the kernel does not know at all is not kept.
    let told = inodes.told(3);
    inodes.found(ROOT, b"b", &inode(Kind::File, 3, 7));
    inodes.restore(3, told);
    assert_eq!(inodes.len(), 2);
    inodes.forgotten(a, 1);
    assert_eq!(inodes.len(), 1);
}

#[test]
fn the_kernel_takes_an_early_end_only_if_it_got_no_attributes_meanwhile() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &sized(7, 1000)).unwrap();
    let begun = inodes.read_begins(a);
    assert!(inodes.read_ends_at(a, 1000, begun), "its end");
    let (first, second) = (inodes.read_begins(a), inodes.read_begins(a));
    // The second one has nothing, and arrives before the first one.
    assert!(inodes.read_ends_at(a, 500, second));
    assert!(!inodes.read_ends_at(a, 100, first));
    let again = inodes.read_begins(a);
    assert!(inodes.read_ends_at(a, 100, again), "asked again");
    let begun = inodes.read_begins(a);
    inodes.seen(a, &sized(8, 1000));
    assert!(!inodes.read_ends_at(a, 100, begun));
    let begun = inodes.read_begins(a);
    inodes.seen(a, &sized(9, 100));
    assert!(inodes.read_ends_at(a, 100, begun), "it knows");
}

#[test]
fn only_a_name_that_hides_a_file_is_removed_when_it_is_closed() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let d = inodes.found(ROOT, b"d", &directory(9)).unwrap();
    let a = inodes.found(d, b"a", &sized(7, 50)).unwrap();
    inodes.open(a);
    inodes.hide(a, d, b".hidden");
    // It has another name, too, and is known by that one.
    inodes.found(ROOT, b"other", &sized(7, 50));
    assert_eq!(inodes.path(a).unwrap(), b"other");
    inodes.forgotten(d, 1);
    assert_eq!(inodes.path(d).unwrap(), b"d", "it is needed");
    assert_eq!(inodes.unhide(a), [(d, b".hidden".to_vec())]);
    inodes.unhidden(d);
    assert_eq!(inodes.path(d), None);
    // The name to which a file was to be moved may or may not be there.
    inodes.hides(a, ROOT, b".linked");
    assert_eq!(inodes.path(a).unwrap(), b"other");
    assert_eq!(inodes.unhide(a), [(ROOT, b".linked".to_vec())]);
    inodes.unhidden(ROOT);
    // A user gives it a name.
    inodes.hide(a, ROOT, b".hidden");
    inodes.renamed((ROOT, b".hidden"), (ROOT, b"kept"));
    assert_eq!((inodes.unhide(a), inodes.path(a).unwrap()), (Vec::new(), b"kept".to_vec()));
    inodes.forgotten(a, 2);
    assert_eq!(inodes.len(), 1);
}

#[test]
fn a_file_that_others_have_made_longer_is_looked_up_before_it_is_written() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &sized(7, 50)).unwrap();
    assert!(!inodes.must_look_again(a, 50));
    inodes.wrote(a, 60);
    inodes.is_written(a, 0);
    assert!(!inodes.must_look_again(a, 60), "by this host");
    // A program that only reads it does not change the kernel's size.
    assert!(inodes.is_new(a, 8));
    assert!(inodes.must_look_again(a, 90) && inodes.must_look_again(a, 90));
    inodes.found(ROOT, b"a", &sized(8, 90));
    assert!(!inodes.must_look_again(a, 90));
    // It grows all the time: once is enough.
    assert!(inodes.must_look_again(a, 91));
    inodes.found(ROOT, b"a", &sized(9, 92));
    assert!(!inodes.must_look_again(a, 93));
}

#[test]
fn a_file_becomes_shorter_when_nothing_was_written_since_the_question() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &sized(7, 50)).unwrap();
    inodes.wrote(a, 90);
    let before = inodes.stamp(Some(a));
    inodes.settled(a);
    inodes.answered(a, before);
    assert_eq!(inodes.size(a, 50), 90, "the answer may be older than the write");
    let after = inodes.stamp(inodes.named(ROOT, b"a"));
    inodes.answered(a, after);
    assert_eq!(inodes.size(a, 50), 50);
}

#[test]
fn bytes_that_did_not_arrive_are_not_used_again() {
    let mut inodes = Inodes::new(Vec::new(), &directory(100));
    let a = inodes.found(ROOT, b"a", &sized(7, 50)).unwrap();
    inodes.opened(a, 7);
    assert!(inodes.opened(a, 7));
    inodes.lost(a);
    assert!(!inodes.opened(a, 7));
}
