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
    /// Names that it has only because it was removed while it was open: directory and name.
    hidden: Vec<(u64, Vec<u8>)>,
    /// When something was written here, or arrived at the server: no two such times are the same.
    stamp: u64,
    /// How often the kernel had been told its attributes when it was last asked to look again.
    asked_again: Option<u64>,
}

impl Node {
    fn tell(&mut self, version: u64, size: u64) {
        (self.version, self.size) = (version, size.max(self.end));
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
    /// The last stamp of a file.
    stamp: u64,
    /// Files that the kernel does not know any more, which nobody has asked for yet.
    gone: Vec<u64>,
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
            size: inode.attributes.size,
            told: 0,
            cached: None,
            opens: 0,
            end: 0,
            hidden: Vec::new(),
            stamp: 0,
            asked_again: None,
        };
        Self {
            root,
            nodes: HashMap::from([(ROOT, node)]),
            names: HashMap::new(),
            stamp: 0,
            gone: Vec::new(),
        }
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

    pub(crate) fn is_directory(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.kind == Kind::Directory)
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
                        hidden: Vec::new(),
                        stamp: 0,
                        asked_again: None,
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

    /// A file is opened that has this version. Whether that is another one than before. If so, the
    /// kernel asks for its attributes, and has its former size until then.
    pub(crate) fn is_new(&mut self, number: u64, version: u64) -> bool {
        self.nodes.get_mut(&number).is_some_and(|node| {
            node.told += 1;
            std::mem::replace(&mut node.version, version) != version
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
            node.size = end;
            node.told += 1;
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
        self.stamp += 1;
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.end, node.stamp) = (node.end.max(end), self.stamp);
            if end > node.size {
                node.size = end;
                node.told += 1;
            }
        }
    }

    /// Something that was written to a file is at the server, or is lost.
    pub(crate) fn settled(&mut self, number: u64) {
        self.stamp += 1;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.stamp = self.stamp;
        }
    }

    /// A question about a file begins. What this returns belongs to its [answer](Self::answered).
    pub(crate) fn stamp(&self, number: Option<u64>) -> u64 {
        number.and_then(|number| self.nodes.get(&number)).map_or(0, |node| node.stamp)
    }

    /// The server has answered a question about a file to which nothing is to be written any more.
    /// If that was so when the question began, the size at the server is the file's.
    pub(crate) fn answered(&mut self, number: u64, stamp: u64) {
        if let Some(node) = self.nodes.get_mut(&number)
            && node.stamp == stamp
        {
            node.end = 0;
        }
    }

    /// A file is opened to be written that has this size at the server. Whether the kernel must
    /// get its attributes first: it would append at another place. It is asked once.
    pub(crate) fn must_look_again(&mut self, number: u64, size: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        let asks = size != node.size && node.asked_again.is_none_or(|told| told == node.told);
        node.asked_again = asks.then_some(node.told);
        asks
    }

    /// Bytes that the kernel has are not at the server: they are not used when the file is opened
    /// next.
    pub(crate) fn lost(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.cached = None;
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
        self.hides(number, parent, name);
    }

    /// A file has this name, too, until it is closed.
    pub(crate) fn hides(&mut self, number: u64, parent: u64, name: &[u8]) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.hidden.push((parent, name.to_vec()));
        // The directory's path is needed to remove the name.
        if let Some(above) = self.nodes.get_mut(&parent) {
            above.children += 1;
        }
    }

    /// The names that a file no longer needs. The caller says when they [are
    /// removed](Self::unhidden).
    pub(crate) fn unhide(&mut self, number: u64) -> Vec<(u64, Vec<u8>)> {
        let hidden = self.nodes.get_mut(&number).map(|node| std::mem::take(&mut node.hidden));
        self.drop_unused(number);
        hidden.unwrap_or_default()
    }

    /// A name in this directory was removed.
    pub(crate) fn unhidden(&mut self, parent: u64) {
        self.child_left(parent);
    }

    /// All that are hidden.
    pub(crate) fn hidden(&self) -> Vec<u64> {
        let hidden = self.nodes.iter().filter(|(_, node)| !node.hidden.is_empty());
        hidden.map(|(&number, _)| number).collect()
    }

    /// A file has another name now.
    pub(crate) fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        // A name that a user gave it stays.
        let kept = self.nodes.values_mut().find_map(|node| {
            let is_from = |hidden: &(u64, Vec<u8>)| hidden.0 == from.0 && hidden.1 == from.1;
            node.hidden.iter().position(is_from).map(|at| node.hidden.remove(at))
        });
        if let Some((parent, _)) = kept {
            self.child_left(parent);
        }
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
            && node.hidden.is_empty()
        {
            let parent = node.parent;
            if let Some(node) = self.nodes.remove(&number) {
                self.gone.push(number);
                self.unname(number, (parent, node.name));
            }
            number = parent;
            if let Some(above) = self.nodes.get_mut(&number) {
                above.children = above.children.saturating_sub(1);
            }
        }
    }

    /// The files that the kernel has forgotten since this was called last.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests;
