//! The files that the kernel knows, and the paths by which it has found them.

use gigae_share::{Inode, Kind, MAX_PATH};
use std::collections::HashMap;

/// The kernel's number for the root of a file system.
pub(crate) const ROOT: u64 = 1;

/// A file that the kernel knows.
#[derive(Debug)]
struct Node {
    /// The directory and the name by which it was found last.
    parent: u64,
    name: Vec<u8>,
    kind: Kind,
    /// The server's number for it: of the root another one than the kernel's.
    id: u64,
    /// How often the kernel was given it.
    lookups: u64,
    /// Files whose path goes through it.
    children: u64,
    /// The version whose attributes the kernel has.
    version: u64,
    /// The size that the kernel was told, or has found by a read that ended earlier.
    size: u64,
    /// How often the kernel may have changed its attributes.
    told: u64,
    /// The version whose bytes the kernel may have.
    cached: Option<u64>,
    /// How many programs have it open.
    opens: u64,
    /// Where what was written here ends, as far as the kernel takes that for its size.
    end: u64,
    /// It was removed while it was open: it has a name that only the server's directory shows.
    hidden: bool,
}

impl Node {
    fn tell(&mut self, version: u64, size: u64) {
        (self.version, self.size) = (version, size);
        self.told += 1;
    }
}

/// Files by number.
#[derive(Debug)]
pub(crate) struct Inodes {
    root: Vec<u8>,
    nodes: HashMap<u64, Node>,
    /// Numbers by directory and name.
    names: HashMap<(u64, Vec<u8>), u64>,
}

impl Inodes {
    /// The root has this path in the share.
    pub(crate) fn new(root: Vec<u8>, inode: &Inode) -> Self {
        let node = Node {
            parent: ROOT,
            name: Vec::new(),
            kind: Kind::Directory,
            id: inode.id,
            lookups: 1,
            children: 0,
            version: inode.attributes.version,
            size: 0,
            told: 0,
            cached: None,
            opens: 0,
            end: 0,
            hidden: false,
        };
        Self { root, nodes: HashMap::from([(ROOT, node)]), names: HashMap::new() }
    }

    /// The path of a file. `None`: it is not known, or its path is too long.
    pub(crate) fn path(&self, mut number: u64) -> Option<Vec<u8>> {
        let (mut names, mut len) = (Vec::new(), self.root.len());
        while number != ROOT {
            let node = self.nodes.get(&number)?;
            len += node.name.len() + 1;
            if len > MAX_PATH {
                return None;
            }
            names.push(&node.name);
            number = node.parent;
        }
        let mut path = self.root.clone();
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Some(path)
    }

    /// The directory in which a file was found.
    pub(crate) fn parent(&self, number: u64) -> u64 {
        self.parent_of(number).unwrap_or(ROOT)
    }

    /// Whether this is the file that the kernel means by this number.
    pub(crate) fn is(&self, number: u64, inode: &Inode) -> bool {
        let is = |node: &Node| node.id == inode.id && node.kind == inode.attributes.kind;
        self.nodes.get(&number).is_some_and(is)
    }

    /// The server's number for a file.
    pub(crate) fn id(&self, number: u64) -> Option<u64> {
        self.nodes.get(&number).map(|node| node.id)
    }

    /// The kernel is given a file that was found under this name, with these attributes. Returns
    /// its number. `None`: it would be a directory beneath itself.
    pub(crate) fn found(&mut self, parent: u64, name: &[u8], inode: &Inode) -> Option<u64> {
        let number = inode.id;
        if self.parent_of(number) != Some(parent) && self.is_beneath(parent, number) {
            return None;
        }
        let kind = inode.attributes.kind;
        let (version, size) = (inode.attributes.version, inode.attributes.size);
        let before = self.nodes.get_mut(&number).map(|node| {
            node.lookups += 1;
            node.kind = kind;
            node.tell(version, size);
            node.parent
        });
        if before.is_some() {
            self.names_it(number, parent, name);
        }
        if before == Some(parent) {
            return Some(number);
        }
        if let Some(above) = self.nodes.get_mut(&parent) {
            above.children += 1;
        }
        match before {
            Some(before) => self.child_left(before),
            None => {
                let name = name.to_vec();
                self.names.insert((parent, name.clone()), number);
                self.nodes.insert(
                    number,
                    Node {
                        parent,
                        name,
                        kind,
                        id: number,
                        lookups: 1,
                        children: 0,
                        version,
                        size,
                        told: 0,
                        cached: None,
                        opens: 0,
                        end: 0,
                        hidden: false,
                    },
                );
            }
        }
        Some(number)
    }

    /// A file is known by this name from now on.
    fn names_it(&mut self, number: u64, parent: u64, name: &[u8]) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.parent == parent && node.name == name {
            self.names.insert((parent, name.to_vec()), number);
            return;
        }
        let before = std::mem::replace(&mut node.parent, parent);
        let before = (before, std::mem::replace(&mut node.name, name.to_vec()));
        self.unname(number, before);
        self.names.insert((parent, name.to_vec()), number);
    }

    /// Another file may have that name by now.
    fn unname(&mut self, number: u64, name: (u64, Vec<u8>)) {
        if self.names.get(&name) == Some(&number) {
            self.names.remove(&name);
        }
    }

    /// The file that was found last under a name.
    pub(crate) fn named(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.names.get(&(parent, name.to_vec())).copied()
    }

    fn parent_of(&self, number: u64) -> Option<u64> {
        self.nodes.get(&number).map(|node| node.parent)
    }

    /// Whether a file is the other one, or beneath it.
    fn is_beneath(&self, mut number: u64, above: u64) -> bool {
        while number != above {
            match self.parent_of(number) {
                Some(parent) if number != ROOT => number = parent,
                _ => return false,
            }
        }
        true
    }

    /// The kernel was told the attributes of a file again. Whether they are others than before.
    pub(crate) fn seen(&mut self, number: u64, inode: &Inode) -> bool {
        let (version, size) = (inode.attributes.version, inode.attributes.size);
        self.nodes.get_mut(&number).is_some_and(|node| {
            let before = node.version;
            node.tell(version, size);
            before != version
        })
    }

    /// Version and size that the kernel was told, to be [restored](Self::restore).
    pub(crate) fn told(&self, number: u64) -> Option<(u64, u64)> {
        self.nodes.get(&number).map(|node| (node.version, node.size))
    }

    /// The kernel had no room for what was [found](Self::found): it still has what it was told
    /// before.
    pub(crate) fn restore(&mut self, number: u64, told: Option<(u64, u64)>) {
        if let (Some(node), Some((version, size))) = (self.nodes.get_mut(&number), told) {
            node.tell(version, size);
        }
        self.forgotten(number, 1);
    }

    /// A read begins. What this returns belongs to its [end](Self::read_ends_at).
    pub(crate) fn read_begins(&self, number: u64) -> u64 {
        self.nodes.get(&number).map_or(0, |node| node.told)
    }

    /// A read has fewer bytes than it asked for: the file ends there. Whether the kernel will take
    /// it so. If it got attributes after it had asked, it keeps their size, and has zeros for what
    /// is missing.
    pub(crate) fn read_ends_at(&mut self, number: u64, end: u64, begun: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        if end >= node.size {
            return true;
        }
        let takes = node.told == begun;
        if takes {
            node.tell(node.version, end);
        }
        takes
    }

    /// A file is opened that has this version. Whether the kernel may use the bytes that it has.
    pub(crate) fn opened(&mut self, number: u64, version: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        node.cached.replace(version) == Some(version)
    }

    /// Bytes of this version go to the kernel. If that has bytes of another one, it is not to use
    /// them when the file is opened next.
    pub(crate) fn read(&mut self, number: u64, version: u64) {
        if let Some(node) = self.nodes.get_mut(&number)
            && node.cached != Some(version)
        {
            node.cached = None;
        }
    }

    /// The server has changed a file as it was asked for: what the kernel has of its bytes is not
    /// used when the file is opened next.
    pub(crate) fn changed(&mut self, number: u64, inode: &Inode) {
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.version, node.cached) = (inode.attributes.version, None);
        }
    }

    /// The kernel has written to a file up to here, and takes that for its size if it was shorter.
    pub(crate) fn wrote(&mut self, number: u64, end: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.end = node.end.max(end);
        }
    }

    /// The server has the file as the kernel has, but for what ends here.
    pub(crate) fn is_written(&mut self, number: u64, end: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.end = end;
        }
    }

    /// Whether something was written here that decides its size.
    pub(crate) fn writes(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.end > 0)
    }

    /// The size of a file for the kernel. What was written here may not be at the server yet.
    pub(crate) fn size(&self, number: u64, size: u64) -> u64 {
        self.nodes.get(&number).map_or(size, |node| node.end.max(size))
    }

    /// A program has opened a file.
    pub(crate) fn open(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.opens += 1;
        }
    }

    /// A program has closed it. Whether it was the last one.
    pub(crate) fn close(&mut self, number: u64) -> bool {
        self.nodes.get_mut(&number).is_none_or(|node| {
            node.opens = node.opens.saturating_sub(1);
            node.opens == 0
        })
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.opens > 0)
    }

    /// A file that is open has lost its name, and has this one.
    pub(crate) fn hide(&mut self, number: u64, parent: u64, name: &[u8]) {
        self.moved(number, parent, name);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.hidden = true;
        }
    }

    /// A file that is hidden no longer needs its name.
    pub(crate) fn unhide(&mut self, number: u64) -> bool {
        self.nodes.get_mut(&number).is_some_and(|node| std::mem::take(&mut node.hidden))
    }

    /// All that are hidden.
    pub(crate) fn hidden(&self) -> Vec<u64> {
        self.nodes.iter().filter(|(_, node)| node.hidden).map(|(&number, _)| number).collect()
    }

    /// A file has another name now.
    pub(crate) fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        if let Some(number) = self.named(from.0, from.1) {
            self.moved(number, to.0, to.1);
        }
    }

    fn moved(&mut self, number: u64, parent: u64, name: &[u8]) {
        let Some(before) = self.parent_of(number) else { return };
        self.names_it(number, parent, name);
        if before != parent {
            if let Some(above) = self.nodes.get_mut(&parent) {
                above.children += 1;
            }
            self.child_left(before);
        }
    }

    /// The kernel gives a file back so many times.
    pub(crate) fn forgotten(&mut self, number: u64, lookups: u64) {
        if number == ROOT {
            return;
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            self.drop_unused(number);
        }
    }

    fn child_left(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.children = node.children.saturating_sub(1);
            self.drop_unused(number);
        }
    }

    fn drop_unused(&mut self, mut number: u64) {
        while number != ROOT
            && let Some(node) = self.nodes.get(&number)
            && node.lookups == 0
            && node.children == 0
        {
            let parent = node.parent;
            if let Some(node) = self.nodes.remove(&number) {
                self.unname(number, (parent, node.name));
            }
            number = parent;
            if let Some(above) = self.nodes.get_mut(&number) {
                above.children = above.children.saturating_sub(1);
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_share::Attributes;

    fn inode(kind: Kind, id: u64, version: u64) -> Inode {
        let attributes = Attributes {
            kind,
            sparse: false,
            mode: 0o644,
            size: 0,
            seconds: 0,
            nanoseconds: 0,
            version,
        };
        Inode { attributes, id, links: 1, blocks: 0, changed: (0, 0) }
    }

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
        assert_eq!(
            (inodes.named(ROOT, b"a"), inodes.path(a).unwrap()),
            (Some(b), b".hidden".into())
        );
        assert!(!inodes.close(a) && inodes.is_open(a));
        assert_eq!(inodes.hidden(), [a]);
        assert!(inodes.close(a) && inodes.unhide(a) && !inodes.unhide(a));
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
}
