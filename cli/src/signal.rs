//! SIGINT and SIGTERM as something to wait for; SIGPIPE as what ends a program whose reader has gone.

use std::sync::mpsc;

/// Ends this process quietly when nobody reads its output any more (`orrery list | head`), as other programs end; Rust
/// ignores the signal, and printing then panics. Not for servers: their log's reader must not end them.
pub fn end_with_the_reader() {
    // SAFETY: the default disposition runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Calls `on_signal` from a thread of its own at the first of either signal; the second ends the process at once.
pub fn on_stop(on_signal: impl FnOnce() + Send + 'static) -> Result<(), ctrlc::Error> {
    let (sender, receiver) = mpsc::channel();
    ctrlc::set_handler(move || {
        if sender.send(()).is_err() {
            std::process::exit(130); // as a shell reports a process that SIGINT ended
        }
    })?;
    std::thread::spawn(move || {
        if receiver.recv().is_ok() {
            drop(receiver);
            on_signal();
        }
    });
    Ok(())
}
