//! The allocator, and how it behaves.

/// Requests allocate and free small objects by the hundred thousand a second: a quarter of a simulation's time went to
/// the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
