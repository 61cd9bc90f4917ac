//! The one buffer type of the engine: owned, growable, with the alignment that direct I/O asks for.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes with a fixed alignment. `len` bytes are initialised, `capacity` allocated.
///
/// A `Vec<u8>` converts without copying (alignment 1).
pub struct Buf {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
    align: usize,
}

// SAFETY: a `Buf` owns its memory exclusively, like `Vec<u8>`.
unsafe impl Send for Buf {}
// SAFETY: shared access only reads initialised bytes, like `Vec<u8>`.
unsafe impl Sync for Buf {}

impl Buf {
    /// What O_DIRECT needs on any device met so far: the logical block of an Advanced Format disk.
    pub const DIRECT_ALIGN: usize = 4096;

    pub const fn new() -> Self {
        Self { ptr: NonNull::dangling(), len: 0, capacity: 0, align: 1 }
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_align(capacity, 1)
    }

    /// For direct I/O: aligned memory, capacity rounded up to whole blocks.
    pub fn direct(capacity: usize) -> Self {
        Self::with_align(capacity.next_multiple_of(Self::DIRECT_ALIGN), Self::DIRECT_ALIGN)
    }

    fn with_align(capacity: usize, align: usize) -> Self {
        let mut buf = Self { ptr: NonNull::dangling(), len: 0, capacity: 0, align };
        if capacity > 0 {
            buf.grow_to(capacity);
        }
        buf
    }

    fn layout(&self, capacity: usize) -> Layout {
        Layout::from_size_align(capacity, self.align).expect("a buffer's size is far below isize::MAX")
    }

    fn grow_to(&mut self, capacity: usize) {
        debug_assert!(capacity > self.capacity);
        let layout = self.layout(capacity);
        let ptr = if self.capacity == 0 {
            // SAFETY: `layout` has a non-zero size.
            unsafe { alloc(layout) }
        } else {
            // SAFETY: `ptr` came from this allocator with `layout(self.capacity)`, the new size is not zero.
            unsafe { realloc(self.ptr.as_ptr(), self.layout(self.capacity), capacity) }
        };
        self.ptr = NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout));
        self.capacity = capacity;
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What the buffer's memory is aligned to by contract, whatever its address happens to be.
    pub fn align(&self) -> usize {
        self.align
    }

    /// Room for at least `additional` more bytes.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = self.len + additional;
        if wanted > self.capacity {
            self.grow_to(wanted.max(self.capacity * 2).next_multiple_of(self.align));
        }
    }

    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: `reserve` made room behind `len`; the source cannot overlap memory that we own exclusively.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.as_ptr().add(self.len), bytes.len()) };
        self.len += bytes.len();
    }

    pub fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Sets the length, filling new bytes with `byte`.
    pub fn resize(&mut self, len: usize, byte: u8) {
        if len > self.len {
            self.reserve(len - self.len);
            // SAFETY: capacity is at least `len`.
            unsafe { std::ptr::write_bytes(self.ptr.as_ptr().add(self.len), byte, len - self.len) };
        }
        self.len = len;
    }

    /// Removes the first `n` bytes, moving the rest to the front.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len);
        self.copy_within(n.., 0);
        self.len -= n;
    }

    /// The bytes as a `Vec`, without a copy unless the memory is aligned for direct I/O.
    pub fn into_vec(self) -> Vec<u8> {
        if self.align != 1 || self.capacity == 0 {
            return self.to_vec();
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: allocated with alignment 1 by the global allocator for `capacity` bytes, `len` of them initialised,
        // and ownership ends here.
        unsafe { Vec::from_raw_parts(this.ptr.as_ptr(), this.len, this.capacity) }
    }

    /// Where the world may write `spare()` more bytes behind `len`.
    pub(crate) fn spare_ptr(&mut self) -> *mut u8 {
        // SAFETY: `len <= capacity`, so the result is inside or one past the allocation.
        unsafe { self.ptr.as_ptr().add(self.len) }
    }

    pub fn spare(&self) -> usize {
        self.capacity - self.len
    }

    /// Declares bytes up to `len` as initialised.
    ///
    /// # Safety
    /// The world has written all bytes below `len`, and `len <= capacity`.
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity);
        self.len = len;
    }
}

impl Default for Buf {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated by us (or by a `Vec<u8>`, alignment 1) with exactly this layout.
            unsafe { dealloc(self.ptr.as_ptr(), self.layout(self.capacity)) };
        }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and ours.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl From<Vec<u8>> for Buf {
    fn from(vec: Vec<u8>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let ptr = NonNull::new(vec.as_mut_ptr()).expect("a Vec's pointer is never null");
        Self { ptr, len: vec.len(), capacity: vec.capacity(), align: 1 }
    }
}

impl From<&[u8]> for Buf {
    fn from(bytes: &[u8]) -> Self {
        let mut buf = Self::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} of {} bytes, align {})", self.len, self.capacity, self.align)
    }
}

impl std::io::Write for Buf {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_keeps_alignment() {
        let mut buf = Buf::direct(1);
        assert_eq!(buf.capacity(), 4096);
        buf.extend_from_slice(&[7; 5000]);
        assert_eq!(buf.as_ptr() as usize % Buf::DIRECT_ALIGN, 0);
        assert!(buf.capacity() >= 8192 && buf.iter().all(|&b| b == 7));
        buf.consume(4999);
        assert_eq!(&*buf, &[7]);
        buf.resize(3, 1);
        assert_eq!(&*buf, &[7, 1, 1]);
    }

    #[test]
    fn takes_over_a_vec() {
        let mut buf = Buf::from(vec![1, 2, 3]);
        buf.push(4);
        assert_eq!(&*buf, &[1, 2, 3, 4]);
        drop(Buf::from(Vec::new()));
    }
}
