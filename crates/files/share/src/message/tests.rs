use super::*;
use crate::change::{Done, Parent};
use crate::entry::Kind;

fn change(change: Change) -> Request {
    let ticket = Ticket { client: 1 << 60, number: 300, oldest: 45, sent_to: 7 };
    Request::Change { ticket, change }
}

fn requests() -> Vec<Request> {
    let path = || b"a/b\xff".to_vec();
    vec![
        Request::Ping,
        Request::Look { path: Vec::new() },
        Request::List { path: path(), from: 7 },
        Request::Small { path: path(), names: vec![b"x".to_vec(), b"\xfe".to_vec()] },
        Request::Read { path: path(), version: 9, offset: 1 << 40, len: 77 },
        Request::Map { path: path(), version: 9 },
        Request::Digests { path: path(), version: 9, size: 1 << 40, first: 3, count: 2 },
        Request::Take {
            id: 1 << 60,
            sources: vec![(b"0".to_vec(), b"n".to_vec())],
            to: path(),
            ignore_times: true,
            exact: false,
        },
        Request::Status,
        Request::Cancel { id: 1 << 60 },
        Request::Stat { path: path() },
        Request::Scan { path: path(), from: 1 << 62, most: 7 },
        Request::Range { path: path(), id: 9, offset: 1 << 40, len: 77 },
        Request::Space { path: Vec::new() },
        change(Change::File { path: path(), mode: 0o640, new: true, truncate: false }),
        change(Change::Directory { path: path(), mode: 0o750 }),
        change(Change::Symlink { path: path(), target: b"../x\xff".to_vec() }),
        change(Change::Remove { path: path(), id: 9, directory: true }),
        change(Change::Rename { from: path(), to: b"c".to_vec(), id: 9, new: true }),
        change(Change::Link { from: path(), id: 9, to: b"c".to_vec() }),
        change(Change::Open { path: path(), id: 9, truncate: true }),
        change(Change::Set {
            path: path(),
            id: 9,
            mode: None,
            size: Some(1 << 40),
            modified: Some((-1, 5)),
        }),
        change(Change::Write { path: path(), id: 9, offset: 1 << 40, data: vec![7; PART] }),
        change(Change::Sync { path: path(), id: 9 }),
    ]
}

#[test]
fn a_request_reads_back_as_it_was_written() {
    for request in requests() {
        assert_eq!(Request::decode(&request.encode(12)), Ok((12, Some(request))));
    }
}

#[test]
fn a_request_that_is_cut_or_of_another_version_is_refused_under_its_number() {
    for request in requests() {
        let whole = request.encode(12);
        for len in (0..whole.len()).filter(|len| len % 4096 < 100) {
            match Request::decode(&whole[..len]) {
                Err(Malformed) => assert!(len < 6),
                // Names follow until the end, so some cuts leave a shorter list.
                Ok((number, read)) => assert!(number == 12 && read.as_ref() != Some(&request)),
            }
        }
        let mut other = whole.clone();
        other[0] = 2;
        assert_eq!(Request::decode(&other), Ok((12, None)));
    }
}

#[test]
fn a_part_with_another_digest_is_refused() {
    let mut reply = vec![ReplyHeader::Data as u8];
    reply.put(&digest(b"bytes").to_le_bytes());
    reply.put(b"bytes");
    assert_eq!(Reply::decode(&reply), Ok(Reply::Data(b"bytes")));
    *reply.last_mut().unwrap() ^= 1;
    assert_eq!(Reply::decode(&reply), Ok(Reply::Failed(Fault::Digest)));
}

#[test]
fn small_files_with_another_digest_are_refused() {
    let files = [1, Fault::Changed as u8];
    let mut reply = vec![ReplyHeader::Files as u8];
    reply.put(&digest(&files).to_le_bytes());
    reply.put(&files);
    assert_eq!(Reply::decode(&reply), Ok(Reply::Files(vec![Err(Fault::Changed)])));
    *reply.last_mut().unwrap() = Fault::Denied as u8;
    assert_eq!(Reply::decode(&reply), Ok(Reply::Failed(Fault::Digest)));
}

#[test]
fn a_status_reads_back_as_it_was_written() {
    let status = Status {
        over: true,
        problems: vec![(b"a".to_vec(), Fault::Denied)],
        failed: 1,
        fatal: Some(Fault::Full),
        left: vec![b".a.gigae-0".to_vec()],
        ..Status::default()
    };
    let mut out = vec![ReplyHeader::Status as u8];
    status.encode(&mut out);
    assert_eq!(Reply::decode(&out), Ok(Reply::Status(status)));
}

#[test]
fn an_entry_with_a_name_that_leads_elsewhere_is_refused() {
    let attributes = Attributes {
        kind: Kind::File,
        sparse: false,
        mode: 0o644,
        size: 0,
        seconds: 0,
        nanoseconds: 0,
        version: 0,
    };
    let reply = |name: &[u8]| {
        let mut out = vec![ReplyHeader::Entries as u8, 0];
        Entry { name: name.to_vec(), attributes, target: Vec::new() }.encode(&mut out);
        out
    };
    assert!(Reply::decode(&reply(b"fine")).is_ok());
    for name in [&b".."[..], b"a/b", b"", b"/etc/passwd", b"."] {
        assert_eq!(Reply::decode(&reply(name)), Err(Malformed));
    }
}

fn inode(kind: Kind) -> Inode {
    let attributes = Attributes {
        kind,
        sparse: false,
        mode: 0o644,
        size: 7,
        seconds: -1,
        nanoseconds: 999_999_999,
        version: 3,
    };
    Inode { attributes, id: 1 << 63, links: 2, blocks: 8, changed: (5, 6) }
}

#[test]
fn bytes_of_a_file_with_another_digest_are_refused() {
    let mut body = Vec::new();
    inode(Kind::File).encode(&mut body);
    body.put(b"bytes");
    let mut reply = vec![ReplyHeader::Range as u8];
    reply.put(&digest(&body).to_le_bytes());
    reply.put(&body);
    assert_eq!(Reply::decode(&reply), Ok(Reply::Range(inode(Kind::File), b"bytes")));
    *reply.last_mut().unwrap() ^= 1;
    assert_eq!(Reply::decode(&reply), Ok(Reply::Failed(Fault::Digest)));
}

#[test]
fn of_a_directory_only_valid_names_and_the_directory_itself_are_read() {
    let reply = |name: &[u8], kind, next: u64| {
        let mut out = vec![ReplyHeader::Scan as u8, 1];
        Named { name: name.to_vec(), inode: inode(kind), next }.encode(&mut out);
        Reply::decode(&out).map(|_| ())
    };
    for name in [&b"."[..], b"..", b"a\xff"] {
        assert_eq!(reply(name, Kind::Directory, 1), Ok(()));
    }
    for name in [&b""[..], b"a/b", b"a\0", &[b'a'; 256]] {
        assert_eq!(reply(name, Kind::Directory, 1), Err(Malformed));
    }
    assert_eq!(reply(b"..", Kind::File, 1), Err(Malformed));
    for next in [0, 1 << 63] {
        assert_eq!(reply(b"a", Kind::File, next), Err(Malformed), "no place in a directory");
    }
}

#[test]
fn an_identity_that_the_kernel_uses_itself_is_refused() {
    for id in [0, 1] {
        let mut out = vec![ReplyHeader::Stat as u8];
        Inode { id, ..inode(Kind::File) }.encode(&mut out);
        out.put_string(b"");
        assert_eq!(Reply::decode(&out), Err(Malformed));
    }
}

#[test]
fn a_change_says_what_its_directory_is_then() {
    let made = inode(Kind::File);
    let parent = inode(Kind::Directory);
    for (names, empty) in [(None, None), (Some((9, 10)), None), (Some((9, 10)), Some(11))] {
        let parent = Some(Parent { inode: parent, names });
        for inode in [None, Some(made)] {
            let done = Done { inode, empty, parent };
            let changed = Changed { record: 1, boot: 2, done };
            let mut out = vec![ReplyHeader::Changed as u8];
            changed.encode(&mut out);
            assert_eq!(Reply::decode(&out), Ok(Reply::Changed(changed)));
            for len in 1..out.len() {
                assert_eq!(Reply::decode(&out[..len]), Err(Malformed));
            }
        }
    }
    let reply = |flags: u8, kind| {
        let mut out = vec![ReplyHeader::Changed as u8];
        out.put(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, flags]);
        inode(kind).encode(&mut out);
        Reply::decode(&out).map(|_| ())
    };
    assert_eq!(reply(2, Kind::Directory), Ok(()));
    assert_eq!(reply(2, Kind::File), Err(Malformed), "names are in directories");
    assert_eq!(reply(4, Kind::Directory), Err(Malformed), "a version of nothing");
    assert_eq!(reply(2 | 16, Kind::Directory), Err(Malformed), "what nobody knows");
}
