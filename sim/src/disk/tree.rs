//! A host's files: folders, names, hard links, and what of them survives power loss.
//!
//! Names are volatile until their folder is synced. Each change of a name is kept as a pending change until then, or
//! until the journal's own commit, five seconds later (ext4's and XFS's default order of magnitude). Power loss keeps
//! in every folder the changes up to a random one; a rename between folders happens in both or in neither.
//!
//! Process crashes change nothing here: what was written is in the kernel's hands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::content::{Content, SyncPoint};
use super::extents::Extents;
use crate::random::Generator;

/// An error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type InodeId = u32;

const ROOT: InodeId = 0;
/// ext4's `commit` mount option, by default.
const COMMIT_NS: u64 = 5_000_000_000;

#[derive(Clone)]
enum Node {
    File(Content),
    Folder(BTreeMap<Box<[u8]>, InodeId>),
}

#[derive(Clone)]
struct Inode {
    node: Node,
    /// Names in folders.
    links: u32,
    /// Open descriptors and operations in flight.
    holds: u32,
    /// Pending changes that may bring a name back.
    pending: u32,
    /// Index of the disk that holds it, and where on that.
    disk: u32,
    extents: Extents,
    /// Never used again, unlike the inode's place in the table.
    number: u64,
}

impl Inode {
    fn new(node: Node, disk: u32, number: u64) -> Self {
        Self { node, links: 1, holds: 0, pending: 0, disk, extents: Extents::default(), number }
    }
}

/// A name appears, disappears, or moves.
#[derive(Clone)]
enum Change {
    Add { folder: InodeId, name: Box<[u8]>, inode: InodeId },
    Remove { folder: InodeId, name: Box<[u8]>, inode: InodeId },
    Rename { from: (InodeId, Box<[u8]>), to: (InodeId, Box<[u8]>), inode: InodeId, replaced: Option<InodeId> },
}

impl Change {
    fn folders(&self) -> (InodeId, InodeId) {
        match self {
            Change::Add { folder, .. } | Change::Remove { folder, .. } => (*folder, *folder),
            Change::Rename { from, to, .. } => (from.0, to.0),
        }
    }

    /// Inodes that undoing or repeating the change needs.
    fn inodes(&self) -> impl Iterator<Item = InodeId> + use<> {
        let (a, b) = self.folders();
        let (inode, replaced) = match self {
            Change::Add { inode, .. } | Change::Remove { inode, .. } => (*inode, None),
            Change::Rename { inode, replaced, .. } => (*inode, *replaced),
        };
        [Some(a), Some(b), Some(inode), replaced].into_iter().flatten()
    }
}

#[derive(Clone)]
struct Pending {
    number: u64,
    at: u64,
    change: Change,
}

#[derive(Clone)]
pub struct Tree {
    inodes: Vec<Option<Inode>>,
    free: Vec<InodeId>,
    pending: VecDeque<Pending>,
    next: u64,
    next_number: u64,
    /// Mount points, longest first, with the disk under each.
    mounts: Vec<(Vec<u8>, u32)>,
    /// Of each disk, up to where it was given to files.
    given: Vec<u64>,
}

impl Tree {
    /// `mounts`: the path under which each disk lies; "/" is disk 0's unless listed.
    pub fn new(mounts: &[(String, u32)]) -> Self {
        let mut tree = Self {
            inodes: Vec::new(),
            free: Vec::new(),
            pending: VecDeque::new(),
            next: 0,
            next_number: 1,
            mounts: Vec::new(),
            given: vec![0; mounts.iter().map(|(_, disk)| *disk as usize + 1).max().unwrap_or(1)],
        };
        tree.mounts = mounts.iter().map(|(path, disk)| (path.trim_end_matches('/').into(), *disk)).collect();
        tree.mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        tree.inodes.push(Some(Inode::new(Node::Folder(BTreeMap::new()), 0, 0)));
        for (path, disk) in mounts {
            let mut folder = ROOT;
            for name in path.split('/').filter(|name| !name.is_empty()) {
                folder = match tree.folder(folder).get(name.as_bytes()) {
                    Some(&inode) => inode,
                    None => tree.add(folder, name.as_bytes(), Node::Folder(BTreeMap::new()), *disk),
                };
            }
        }
        tree
    }

    fn inode(&self, id: InodeId) -> &Inode {
        self.inodes[id as usize].as_ref().expect("an inode with a name or a holder is there")
    }

    fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes[id as usize].as_mut().expect("an inode with a name or a holder is there")
    }

    fn folder(&self, id: InodeId) -> &BTreeMap<Box<[u8]>, InodeId> {
        match &self.inode(id).node {
            Node::Folder(names) => names,
            Node::File(_) => unreachable!("callers have checked that it is a folder"),
        }
    }

    fn folder_mut(&mut self, id: InodeId) -> &mut BTreeMap<Box<[u8]>, InodeId> {
        match &mut self.inode_mut(id).node {
            Node::Folder(names) => names,
            Node::File(_) => unreachable!("callers have checked that it is a folder"),
        }
    }

    pub fn content(&self, id: InodeId) -> Result<&Content, Errno> {
        match &self.inode(id).node {
            Node::File(content) => Ok(content),
            Node::Folder(_) => Err(Errno(libc::EISDIR)),
        }
    }

    pub fn content_mut(&mut self, id: InodeId) -> Result<&mut Content, Errno> {
        match &mut self.inode_mut(id).node {
            Node::File(content) => Ok(content),
            Node::Folder(_) => Err(Errno(libc::EISDIR)),
        }
    }

    pub fn disk(&self, id: InodeId) -> u32 {
        self.inode(id).disk
    }

    /// The file's number in the page cache.
    pub fn number(&self, id: InodeId) -> u64 {
        self.inode(id).number
    }

    /// The disk that a path's file would lie on.
    pub fn disk_of_path(&self, path: &[u8]) -> u32 {
        let under = |mount: &[u8]| path.starts_with(mount) && matches!(path.get(mount.len()), None | Some(b'/'));
        self.mounts.iter().find(|(mount, _)| under(mount)).map_or(0, |(_, disk)| *disk)
    }

    /// The files that have a name, with their paths, in bytewise order.
    pub fn files(&self) -> Vec<(String, InodeId)> {
        let mut files = Vec::new();
        let mut folders = vec![(String::new(), ROOT)];
        while let Some((path, folder)) = folders.pop() {
            for (name, &id) in self.folder(folder) {
                let path = format!("{path}/{}", String::from_utf8_lossy(name));
                match self.inode(id).node {
                    Node::File(_) => files.push((path, id)),
                    Node::Folder(_) => folders.push((path, id)),
                }
            }
        }
        files.sort_unstable();
        files
    }

    /// A name of the file or folder; none when it has been removed.
    pub fn path(&self, id: InodeId) -> Option<String> {
        let mut folders = vec![(String::new(), ROOT)];
        while let Some((path, folder)) = folders.pop() {
            for (name, &inode) in self.folder(folder) {
                let path = format!("{path}/{}", String::from_utf8_lossy(name));
                if inode == id {
                    return Some(path);
                }
                if matches!(self.inode(inode).node, Node::Folder(_)) {
                    folders.push((path, inode));
                }
            }
        }
        None
    }

    /// Bytes of a disk that files take, those without a name included.
    pub fn occupied(&self, disk: u32) -> u64 {
        let files = self.inodes.iter().flatten().filter(|inode| inode.disk == disk);
        let bytes = files.map(|inode| match &inode.node {
            Node::File(content) => content.occupied(),
            Node::Folder(_) => 0,
        });
        bytes.sum()
    }

    pub(crate) fn is_there(&self, id: InodeId) -> bool {
        self.inodes.get(id as usize).is_some_and(Option::is_some)
    }

    /// All processes are gone: nothing is held any more. Changes of names count from `now` on.
    pub fn forget_holders(&mut self, now: u64) {
        self.pending.iter_mut().for_each(|pending| pending.at = now);
        for id in 0..self.inodes.len() as InodeId {
            if let Some(inode) = &mut self.inodes[id as usize] {
                inode.holds = 0;
                self.free_unused(id);
            }
        }
    }

    pub fn memory(&self) -> usize {
        self.inodes
            .iter()
            .flatten()
            .map(|inode| match &inode.node {
                Node::File(content) => content.memory(),
                Node::Folder(names) => names.len() * 64,
            })
            .sum()
    }

    fn find(&self, path: &[u8]) -> Result<InodeId, Errno> {
        let mut at = ROOT;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            at = match &self.inode(at).node {
                Node::Folder(names) => *names.get(name).ok_or(Errno(libc::ENOENT))?,
                Node::File(_) => return Err(Errno(libc::ENOTDIR)),
            };
        }
        Ok(at)
    }

    /// The folder and the last name of a path.
    fn find_parent<'p>(&self, path: &'p [u8]) -> Result<(InodeId, &'p [u8]), Errno> {
        let end = path.iter().rposition(|&byte| byte != b'/').ok_or(Errno(libc::EEXIST))? + 1;
        let begin = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let folder = self.find(&path[..begin])?;
        match self.inode(folder).node {
            Node::Folder(_) => Ok((folder, &path[begin..end])),
            Node::File(_) => Err(Errno(libc::ENOTDIR)),
        }
    }

    fn add(&mut self, folder: InodeId, name: &[u8], node: Node, disk: u32) -> InodeId {
        let number = self.next_number;
        self.next_number += 1;
        let inode = Some(Inode::new(node, disk, number));
        let id = match self.free.pop() {
            Some(id) => {
                self.inodes[id as usize] = inode;
                id
            }
            None => {
                self.inodes.push(inode);
                (self.inodes.len() - 1) as u32
            }
        };
        self.folder_mut(folder).insert(name.into(), id);
        id
    }

    fn log(&mut self, now: u64, change: Change) {
        change.inodes().for_each(|id| self.inode_mut(id).pending += 1);
        self.pending.push_back(Pending { number: self.next, at: now, change });
        self.next += 1;
        self.commit_old(now);
    }

    fn commit_old(&mut self, now: u64) {
        while self.pending.front().is_some_and(|pending| pending.at + COMMIT_NS <= now) {
            if let Some(pending) = self.pending.pop_front() {
                self.settle(&pending.change);
            }
        }
    }

    /// A change has become durable, or was undone for good.
    fn settle(&mut self, change: &Change) {
        for id in change.inodes() {
            self.inode_mut(id).pending -= 1;
        }
        for id in change.inodes() {
            if self.inodes[id as usize].is_some() {
                self.free_unused(id);
            }
        }
    }

    fn free_unused(&mut self, id: InodeId) {
        let inode = self.inode(id);
        if inode.links == 0 && inode.holds == 0 && inode.pending == 0 {
            self.inodes[id as usize] = None;
            self.free.push(id);
        }
    }

    /// Keeps a file's bytes while a descriptor or an operation needs them.
    pub fn hold(&mut self, id: InodeId) {
        self.inode_mut(id).holds += 1;
    }

    pub fn release(&mut self, id: InodeId) {
        self.inode_mut(id).holds -= 1;
        self.free_unused(id);
    }

    /// Opens or creates a file; the caller holds it.
    pub fn open(
        &mut self,
        now: u64,
        path: &[u8],
        create: bool,
        exclusive: bool,
        truncate: bool,
    ) -> Result<InodeId, Errno> {
        let id = match self.find(path) {
            Ok(_) if create && exclusive => return Err(Errno(libc::EEXIST)),
            Ok(id) => id,
            Err(Errno(libc::ENOENT)) if create => {
                let (folder, name) = self.find_parent(path)?;
                let disk = self.disk_of_path(path);
                let id = self.add(folder, name, Node::File(Content::default()), disk);
                self.log(now, Change::Add { folder, name: name.into(), inode: id });
                id
            }
            Err(error) => return Err(error),
        };
        let content = self.content_mut(id)?;
        if truncate {
            content.truncate(0);
        }
        self.hold(id);
        Ok(id)
    }

    pub fn create_folder(&mut self, now: u64, path: &[u8]) -> Result<(), Errno> {
        let (folder, name) = match self.find_parent(path) {
            Err(Errno(libc::EEXIST)) => return Ok(()),
            other => other?,
        };
        if let Some(&id) = self.folder(folder).get(name) {
            return match self.inode(id).node {
                Node::Folder(_) => Ok(()),
                Node::File(_) => Err(Errno(libc::EEXIST)),
            };
        }
        let disk = self.disk_of_path(path);
        let id = self.add(folder, name, Node::Folder(BTreeMap::new()), disk);
        self.log(now, Change::Add { folder, name: name.into(), inode: id });
        Ok(())
    }

    pub fn remove_folder(&mut self, now: u64, path: &[u8]) -> Result<(), Errno> {
        let (folder, name) = self.find_parent(path)?;
        let id = *self.folder(folder).get(name).ok_or(Errno(libc::ENOENT))?;
        match &self.inode(id).node {
            Node::File(_) => return Err(Errno(libc::ENOTDIR)),
            Node::Folder(names) if !names.is_empty() => return Err(Errno(libc::ENOTEMPTY)),
            Node::Folder(_) => {}
        }
        self.remove_name(now, folder, name, id);
        Ok(())
    }

    fn remove_name(&mut self, now: u64, folder: InodeId, name: &[u8], id: InodeId) {
        self.folder_mut(folder).remove(name);
        self.inode_mut(id).links -= 1;
        self.log(now, Change::Remove { folder, name: name.into(), inode: id });
    }

    /// The file whose only name this is.
    pub fn only_name_of(&self, path: &[u8]) -> Option<InodeId> {
        let id = self.find(path).ok()?;
        let inode = self.inode(id);
        (matches!(inode.node, Node::File(_)) && inode.links == 1).then_some(id)
    }

    /// Whether a descriptor or an operation needs the file.
    pub fn is_held(&self, id: InodeId) -> bool {
        self.inode(id).holds > 0
    }

    /// Whether a file goes with its holder: that is the last one, and it has no name.
    pub fn goes_with_holder(&self, id: InodeId) -> bool {
        let inode = self.inode(id);
        (inode.links, inode.holds) == (0, 1)
    }

    /// Gives a file the room that it takes by now.
    pub fn give_room(&mut self, id: InodeId) {
        if let Some(Some(Inode { node: Node::File(content), disk, extents, .. })) = self.inodes.get_mut(id as usize) {
            extents.grow(content.occupied(), &mut self.given[*disk as usize]);
        }
    }

    /// Gives back the last extent of a file that goes: its bytes in use.
    pub fn take_extent(&mut self, id: InodeId) -> Option<u64> {
        match self.inodes.get_mut(id as usize) {
            Some(Some(Inode { node: Node::File(content), extents, .. })) => extents.pop(content.occupied()),
            _ => None,
        }
    }

    /// Whether the inode is still that of the file `number`.
    pub fn is_file(&self, id: InodeId, number: u64) -> bool {
        self.inodes[id as usize].as_ref().is_some_and(|inode| inode.number == number)
    }

    pub fn unlink(&mut self, now: u64, path: &[u8]) -> Result<(), Errno> {
        let (folder, name) = self.find_parent(path)?;
        let id = *self.folder(folder).get(name).ok_or(Errno(libc::ENOENT))?;
        if matches!(self.inode(id).node, Node::Folder(_)) {
            return Err(Errno(libc::EISDIR));
        }
        self.remove_name(now, folder, name, id);
        Ok(())
    }

    pub fn link(&mut self, now: u64, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let id = self.find(from)?;
        if matches!(self.inode(id).node, Node::Folder(_)) {
            return Err(Errno(libc::EPERM));
        }
        let (folder, name) = self.find_parent(to)?;
        if self.folder(folder).contains_key(name) {
            return Err(Errno(libc::EEXIST));
        }
        if self.disk_of_path(to) != self.disk(id) {
            return Err(Errno(libc::EXDEV));
        }
        self.folder_mut(folder).insert(name.into(), id);
        self.inode_mut(id).links += 1;
        self.log(now, Change::Add { folder, name: name.into(), inode: id });
        Ok(())
    }

    pub fn rename(&mut self, now: u64, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let (from_folder, from_name) = self.find_parent(from)?;
        let id = *self.folder(from_folder).get(from_name).ok_or(Errno(libc::ENOENT))?;
        let (to_folder, to_name) = self.find_parent(to)?;
        if self.disk_of_path(to) != self.disk(id) {
            return Err(Errno(libc::EXDEV));
        }
        let replaced = self.folder(to_folder).get(to_name).copied();
        if replaced == Some(id) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (&self.inode(id).node, &self.inode(replaced).node) {
                (Node::File(_), Node::File(_)) => {}
                (Node::Folder(_), Node::Folder(names)) if names.is_empty() => {}
                (Node::Folder(_), Node::Folder(_)) => return Err(Errno(libc::ENOTEMPTY)),
                (Node::File(_), Node::Folder(_)) => return Err(Errno(libc::EISDIR)),
                (Node::Folder(_), Node::File(_)) => return Err(Errno(libc::ENOTDIR)),
            }
        }
        let change = Change::Rename {
            from: (from_folder, from_name.into()),
            to: (to_folder, to_name.into()),
            inode: id,
            replaced,
        };
        self.apply(&change);
        self.log(now, change);
        Ok(())
    }

    /// Names in a folder, in bytewise order.
    pub fn names(&self, path: &[u8]) -> Result<impl Iterator<Item = &[u8]>, Errno> {
        let id = self.find(path)?;
        match &self.inode(id).node {
            Node::Folder(names) => Ok(names.keys().map(|name| &**name)),
            Node::File(_) => Err(Errno(libc::ENOTDIR)),
        }
    }

    /// Begins a folder's sync: what has changed by now will be durable when it ends.
    pub fn folder_sync_point(&self, path: &[u8]) -> Result<(InodeId, u64), Errno> {
        let id = self.find(path)?;
        match self.inode(id).node {
            Node::Folder(_) => Ok((id, self.next)),
            Node::File(_) => Err(Errno(libc::ENOTDIR)),
        }
    }

    /// Ends a folder's sync. Earlier changes of other folders that this folder's changes rest on become durable too.
    pub fn sync_folder(&mut self, (folder, before): (InodeId, u64)) {
        let mut folders = BTreeSet::from([folder]);
        let (mut kept, mut durable) = (VecDeque::new(), Vec::new());
        while let Some(pending) = self.pending.pop_back() {
            let (a, b) = pending.change.folders();
            if pending.number < before && (folders.contains(&a) || folders.contains(&b)) {
                folders.extend([a, b]);
                durable.push(pending.change);
            } else {
                kept.push_front(pending);
            }
        }
        self.pending = kept;
        durable.iter().for_each(|change| self.settle(change));
    }

    pub fn sync_point(&mut self, id: InodeId) -> Result<SyncPoint, Errno> {
        Ok(self.content_mut(id)?.sync_point())
    }

    /// Does a change to the names, without logging it.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Add { folder, name, inode } => {
                self.folder_mut(*folder).insert(name.clone(), *inode);
                self.inode_mut(*inode).links += 1;
            }
            Change::Remove { folder, name, inode } => {
                self.folder_mut(*folder).remove(name);
                self.inode_mut(*inode).links -= 1;
            }
            Change::Rename { from, to, inode, replaced } => {
                self.folder_mut(from.0).remove(&from.1);
                self.folder_mut(to.0).insert(to.1.clone(), *inode);
                if let Some(replaced) = replaced {
                    self.inode_mut(*replaced).links -= 1;
                }
            }
        }
    }

    fn undo(&mut self, change: &Change) {
        match change {
            Change::Add { folder, name, inode } => {
                self.folder_mut(*folder).remove(name);
                self.inode_mut(*inode).links -= 1;
            }
            Change::Remove { folder, name, inode } => {
                self.folder_mut(*folder).insert(name.clone(), *inode);
                self.inode_mut(*inode).links += 1;
            }
            Change::Rename { from, to, inode, replaced } => {
                self.folder_mut(to.0).remove(&to.1);
                self.folder_mut(from.0).insert(from.1.clone(), *inode);
                if let Some(replaced) = replaced {
                    self.folder_mut(to.0).insert(to.1.clone(), *replaced);
                    self.inode_mut(*replaced).links += 1;
                }
            }
        }
    }

    /// The power fails. Descriptors must have been released before.
    pub fn lose_power(&mut self, now: u64, random: &mut Generator) {
        self.commit_old(now);
        let pending: Vec<Pending> = std::mem::take(&mut self.pending).into();
        pending.iter().rev().for_each(|pending| self.undo(&pending.change));
        // As with sectors: how much the journal had written; in each folder a beginning of its changes.
        let kept_in_8 = [0, 4, 7, 8][random.below(4) as usize];
        let mut broken: BTreeSet<InodeId> = BTreeSet::new();
        for pending in &pending {
            let (a, b) = pending.change.folders();
            if broken.contains(&a) || broken.contains(&b) || !random.chance(kept_in_8, 8) {
                broken.extend([a, b]);
            } else {
                self.apply(&pending.change);
            }
        }
        pending.iter().for_each(|pending| self.settle(&pending.change));
        for id in 0..self.inodes.len() as InodeId {
            if let Some(Inode { node: Node::File(content), .. }) = self.inodes[id as usize].as_mut() {
                content.lose_power(random);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::new(&[("/".into(), 0), ("/data".into(), 1)])
    }

    fn names(tree: &Tree, path: &str) -> Vec<String> {
        tree.names(path.as_bytes()).unwrap().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    fn put(tree: &mut Tree, path: &str, bytes: &[u8]) {
        let id = tree.open(0, path.as_bytes(), true, false, true).unwrap();
        tree.content_mut(id).unwrap().write(0, bytes, false);
        let point = tree.sync_point(id).unwrap();
        tree.content_mut(id).unwrap().sync(point);
        tree.release(id);
    }

    fn get(tree: &mut Tree, path: &str) -> Result<Vec<u8>, Errno> {
        let id = tree.open(0, path.as_bytes(), false, false, false)?;
        let mut bytes = Vec::new();
        tree.content(id)?.read(0, 1 << 20, |piece| bytes.extend_from_slice(piece));
        tree.release(id);
        Ok(bytes)
    }

    fn sync_folder(tree: &mut Tree, path: &str) {
        let point = tree.folder_sync_point(path.as_bytes()).unwrap();
        tree.sync_folder(point);
    }

    #[test]
    fn names_behave_as_the_kernels_do() {
        let mut tree = tree();
        let errno = |result: Result<(), Errno>| result.unwrap_err().0;
        put(&mut tree, "/data/a", b"one");
        assert_eq!(tree.open(0, b"/data/a", true, true, false), Err(Errno(libc::EEXIST)));
        assert_eq!(tree.open(0, b"/data/none/a", true, false, false), Err(Errno(libc::ENOENT)));
        assert_eq!(tree.open(0, b"/data", false, false, false), Err(Errno(libc::EISDIR)));
        tree.link(0, b"/data/a", b"/data/b").unwrap();
        assert_eq!(errno(tree.link(0, b"/data/a", b"/data/b")), libc::EEXIST);
        assert_eq!(errno(tree.rename(0, b"/data/a", b"/a")), libc::EXDEV);
        tree.unlink(0, b"/data/a").unwrap();
        assert_eq!(get(&mut tree, "/data/b").unwrap(), b"one");
        tree.create_folder(0, b"/data/sub/").unwrap();
        tree.create_folder(0, b"/data/sub").unwrap();
        put(&mut tree, "/data/sub/c", b"two");
        assert_eq!(errno(tree.remove_folder(0, b"/data/sub")), libc::ENOTEMPTY);
        assert_eq!(errno(tree.unlink(0, b"/data/sub")), libc::EISDIR);
        tree.rename(0, b"/data/sub/c", b"/data/b").unwrap();
        tree.remove_folder(0, b"/data/sub").unwrap();
        assert_eq!(names(&tree, "/data"), ["b"]);
        assert_eq!(get(&mut tree, "/data/b").unwrap(), b"two");
        assert_eq!(tree.disk_of_path(b"/data/b"), 1);
        assert_eq!(tree.disk_of_path(b"/database"), 0);
    }

    #[test]
    fn an_unlinked_file_lives_while_it_is_open_and_its_memory_goes_after() {
        let mut tree = tree();
        put(&mut tree, "/data/a", &[7; 1 << 16]);
        let id = tree.open(0, b"/data/a", false, false, false).unwrap();
        tree.unlink(0, b"/data/a").unwrap();
        sync_folder(&mut tree, "/data");
        assert_eq!(tree.content(id).unwrap().size(), 1 << 16);
        tree.release(id);
        assert!(tree.memory() < 1000);
    }

    #[test]
    fn replacing_by_rename_gives_the_old_or_the_new() {
        let (mut old, mut new) = (0, 0);
        for seed in 0..100 {
            let mut tree = tree();
            put(&mut tree, "/data/a", b"old");
            sync_folder(&mut tree, "/data");
            put(&mut tree, "/data/a.tmp", b"new");
            tree.rename(0, b"/data/a.tmp", b"/data/a").unwrap();
            tree.lose_power(1, &mut Generator::new(seed));
            match &*get(&mut tree, "/data/a").unwrap() {
                b"old" => old += 1,
                b"new" => {
                    new += 1;
                    assert_eq!(names(&tree, "/data"), ["a"]);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(old > 10 && new > 10, "{old} {new}");
    }

    #[test]
    fn a_synced_folder_keeps_its_names_and_an_unsynced_one_may_not() {
        let mut gone = 0;
        for seed in 0..100 {
            let mut tree = tree();
            tree.create_folder(0, b"/data/sub").unwrap();
            put(&mut tree, "/data/sub/a", b"1");
            sync_folder(&mut tree, "/data");
            sync_folder(&mut tree, "/data/sub");
            put(&mut tree, "/data/sub/b", b"2");
            tree.unlink(0, b"/data/sub/a").unwrap();
            tree.lose_power(1, &mut Generator::new(seed));
            let names = names(&tree, "/data/sub");
            gone += u32::from(!names.iter().any(|name| name == "b"));
            // In order: `a` cannot go while `b` has not come.
            assert!(names == ["a"] || names == ["a", "b"] || names == ["b"], "{names:?}");
        }
        assert!(gone > 10 && gone < 90);
    }

    #[test]
    fn the_journal_commits_by_itself_after_five_seconds() {
        for seed in 0..30 {
            let mut tree = tree();
            put(&mut tree, "/data/a", b"1");
            tree.lose_power(COMMIT_NS, &mut Generator::new(seed));
            assert_eq!(names(&tree, "/data"), ["a"]);
        }
    }
}
