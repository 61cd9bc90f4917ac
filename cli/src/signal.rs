//! SIGINT and SIGTERM as something to wait for.

use std::mem::MaybeUninit;

/// Both signals, blocked in this thread and all that it starts, so that one thread can wait for them.
pub struct Signals(libc::sigset_t);

impl Signals {
    /// To be called before any thread is started.
    pub fn block() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set that the others then use; all take valid pointers.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            Self(set.assume_init())
        }
    }

    /// Waits for either.
    pub fn wait(&self) {
        let mut signal = 0;
        // SAFETY: the set is initialised and `signal` outlives the call.
        unsafe { libc::sigwait(&self.0, &mut signal) };
    }
}
