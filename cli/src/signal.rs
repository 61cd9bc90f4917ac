//! SIGINT and SIGTERM as something to wait for.

use std::sync::mpsc;

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
