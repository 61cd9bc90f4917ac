//! The allocator, and how it behaves.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use mimalloc::MiMalloc;

/// Requests allocate and free small objects by the hundred thousand a second: a quarter of a simulation's time went to
/// the C library's allocator.
#[global_allocator]
static ALLOCATOR: Recent = Recent;

/// mimalloc, and in front of it what the thread freed last.
///
/// mimalloc hands out the blocks of a page in turn, so what one request freed has left the processor's caches when it is
/// that block's turn again: taking blocks was 5 % of a simulation's time, most of it waiting for memory. Here the block that
/// was freed last is handed out first. Simulations of three nodes took 3 to 21 % less time by it, one of one node
/// between 2 % less and 7 % more.
struct Recent;

/// Bytes. Blocks are kept by their size in steps of so many.
const STEP: usize = 16;
/// Bytes. What is larger is for mimalloc alone.
const LARGEST: usize = 1024;
/// Blocks of a size that are kept: all together at most 8.5 MB a thread.
const KEPT: u32 = 256;

/// Blocks of a size, the last freed on top.
struct Stack {
    top: Cell<Option<NonNull<Block>>>,
    len: Cell<u32>,
}

/// What a block holds while it is in a stack.
struct Block {
    below: Option<NonNull<Block>>,
}

/// A stack a class: class 0 has the blocks of one step, class 1 those of two.
struct Stacks([Stack; LARGEST / STEP]);

thread_local! {
    static FREED: Stacks = const { Stacks([const { Stack { top: Cell::new(None), len: Cell::new(0) } }; LARGEST / STEP]) };
}

impl Stack {
    #[inline]
    fn pop(&self) -> Option<NonNull<Block>> {
        let top = self.top.get()?;
        // SAFETY: `push` wrote it, and what is in a stack is nobody else's.
        self.top.set(unsafe { top.read() }.below);
        self.len.set(self.len.get() - 1);
        Some(top)
    }

    /// False where the stack is full.
    ///
    /// # Safety
    /// The block is of the stack's class, and its last owner gave it up.
    #[inline]
    unsafe fn push(&self, block: NonNull<Block>) -> bool {
        if self.len.get() == KEPT {
            return false;
        }
        // SAFETY: a block of any class is as large as a pointer, aligned to `STEP`, and the stack's alone from here on.
        unsafe { block.write(Block { below: self.top.get() }) };
        self.top.set(Some(block));
        self.len.set(self.len.get() + 1);
        true
    }
}

impl Drop for Stacks {
    /// A thread that ends gives back what it kept.
    fn drop(&mut self) {
        for (class, stack) in self.0.iter().enumerate() {
            while let Some(block) = stack.pop() {
                // SAFETY: every block of a class was allocated with the class's layout.
                unsafe { MiMalloc.dealloc(block.as_ptr().cast(), layout_of(class)) };
            }
        }
    }
}

/// None for what mimalloc serves alone.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    (layout.align() <= STEP && (1..=LARGEST).contains(&layout.size())).then(|| (layout.size() - 1) / STEP)
}

#[inline]
fn layout_of(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size, `LARGEST` at most, a multiple of it.
    unsafe { Layout::from_size_align_unchecked((class + 1) * STEP, STEP) }
}

// SAFETY: a block is either mimalloc's for the layout that was asked for, or mimalloc's for the layout of the class, which
// holds every layout of the class. Which of them, the layout tells, and a block is freed with the one it was asked with.
//
// Called and not inlined, or the program is a fifth larger.
unsafe impl GlobalAlloc for Recent {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            // SAFETY: the caller's own request.
            return unsafe { MiMalloc.alloc(layout) };
        };
        match FREED.try_with(|freed| freed.0[class].pop()) {
            Ok(Some(block)) => block.as_ptr().cast(),
            // SAFETY: a class's layout is not empty.
            Ok(None) | Err(_) => unsafe { MiMalloc.alloc(layout_of(class)) },
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = class_of(layout) else {
            // SAFETY: mimalloc's for this layout.
            return unsafe { MiMalloc.dealloc(block, layout) };
        };
        // SAFETY: what was allocated is not null; of this class, and its owner gives it up.
        let kept = FREED.try_with(|freed| unsafe { freed.0[class].push(NonNull::new_unchecked(block).cast()) });
        if kept != Ok(true) {
            // SAFETY: mimalloc's for the class's layout, and in no stack.
            unsafe { MiMalloc.dealloc(block, layout_of(class)) };
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if class_of(layout).is_none() {
            // SAFETY: the caller's own request.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's own request.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: allocated for this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has it that the size, rounded up to the alignment, is one that can be.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class_of(layout), class_of(wanted)) {
            // SAFETY: mimalloc's for this layout.
            (None, None) => unsafe { MiMalloc.realloc(block, layout, size) },
            (had, wants) if had == wants => block,
            _ => {
                // SAFETY: the caller's own request.
                let moved = unsafe { self.alloc(wanted) };
                if !moved.is_null() {
                    // SAFETY: two blocks, each at least as large as the smaller of the sizes; the old one is given up.
                    unsafe {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                }
                moved
            }
        }
    }
}

/// `mi_option_purge_delay` of mimalloc's `mi_option_t`, which the crate does not name.
const PURGE_DELAY: std::ffi::c_int = 15;

/// Memory that was freed is kept for who asks next: to give it back to the system, and to fault its pages in again,
/// would hold a shard up for most of a millisecond at a time. How much may be used is bounded by the settings.
pub fn keep_freed_memory() {
    // SAFETY: an option of the allocator, set before there are other threads.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No size that the test runner allocates by the way.
    const ODD: Layout = Layout::new::<[u128; 61]>();

    fn blocks(count: usize, layout: Layout) -> Vec<*mut u8> {
        // SAFETY: not empty.
        (0..count).map(|_| unsafe { Recent.alloc(layout) }).collect()
    }

    fn free(blocks: Vec<*mut u8>, layout: Layout) {
        // SAFETY: each was allocated with this layout, and is freed once.
        blocks.into_iter().for_each(|block| unsafe { Recent.dealloc(block, layout) });
    }

    fn kept(layout: Layout) -> u32 {
        FREED.with(|freed| freed.0[class_of(layout).expect("a small layout")].len.get())
    }

    #[test]
    fn the_last_that_was_freed_is_the_first_to_be_handed_out() {
        let mut first = blocks(3, ODD);
        free(first.clone(), ODD);
        let second = blocks(3, ODD);
        first.reverse();
        assert_eq!(first, second);
        free(second, ODD);
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        free(blocks(KEPT as usize + 10, ODD), ODD);
        assert_eq!(kept(ODD), KEPT);
    }

    #[test]
    fn a_thread_frees_what_another_allocated() {
        let blocks = blocks(3, ODD).into_iter().map(|block| block as usize).collect::<Vec<_>>();
        std::thread::spawn(move || {
            free(blocks.into_iter().map(|block| block as *mut u8).collect(), ODD);
            assert_eq!(kept(ODD), 3);
        })
        .join()
        .expect("the thread ends");
        assert_eq!(kept(ODD), 0);
    }

    #[test]
    fn sizes_share_a_class_by_steps_and_the_large_and_the_aligned_have_none() {
        let class = |size, align| class_of(Layout::from_size_align(size, align).expect("a layout"));
        assert_eq!([class(1, 1), class(16, 8), class(17, 16)], [Some(0), Some(0), Some(1)]);
        assert_eq!(
            [class(LARGEST, 1), class(LARGEST + 1, 1), class(64, 64), class(0, 1)],
            [Some(63), None, None, None]
        );
        assert_eq!(layout_of(63).size(), LARGEST);
    }

    #[test]
    fn a_block_that_grows_and_shrinks_keeps_its_bytes() {
        let sizes = [1, 16, 17, 500, LARGEST, LARGEST + 1, 100_000, 5_000, LARGEST, 300, 3];
        let mut had = sizes[0];
        let layout = |size| Layout::from_size_align(size, 1).expect("a layout");
        // SAFETY: each call has the layout of the block's last size.
        unsafe {
            let mut block = Recent.alloc_zeroed(layout(had));
            for size in sizes {
                block = Recent.realloc(block, layout(had), size);
                let bytes = std::slice::from_raw_parts_mut(block, size);
                let same = had.min(size);
                assert!(bytes[..same].iter().enumerate().all(|(at, byte)| *byte == at as u8), "{had} to {size}");
                bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
                had = size;
            }
            Recent.dealloc(block, layout(had));
        }
    }

    #[test]
    fn a_block_that_was_used_is_zeroed_where_that_is_asked() {
        let mut used = blocks(1, ODD);
        // SAFETY: the block is of this size, and freed once; the one that comes is read within its size.
        unsafe {
            used[0].write_bytes(7, ODD.size());
            Recent.dealloc(used[0], ODD);
            used[0] = Recent.alloc_zeroed(ODD);
            assert!(std::slice::from_raw_parts(used[0], ODD.size()).iter().all(|byte| *byte == 0));
        }
        free(used, ODD);
    }

    #[test]
    fn the_number_is_that_of_the_delay() {
        // SAFETY: reads an option.
        let before = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // Milliseconds; of the options around it, one is 0 or 1 and the other 0.
        assert!(before == -1 || before >= 10, "{before}");
        keep_freed_memory();
        // SAFETY: as above.
        assert_eq!(unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }, -1);
    }
}
