//! Writes that wait for memory, and go on in the order in which they came, as many at a time as there is room for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Default)]
pub(crate) struct Admission {
    waiting: RefCell<VecDeque<Rc<Ticket>>>,
    /// Bytes of those that were let go and have not gone yet.
    admitted: Cell<u64>,
}

struct Ticket {
    bytes: u64,
    state: Cell<State>,
    waker: RefCell<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Admitted,
    /// It has gone, or nobody waits for it any more.
    Over,
}

struct Wait<'a> {
    admission: &'a Admission,
    ticket: Rc<Ticket>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.ticket.state.replace(State::Over) == State::Admitted {
            // It was let go and gave up: the next one goes in its place.
            self.admission.go(self.ticket.bytes);
            self.admission.admit(self.ticket.bytes + self.admission.admitted.get());
        }
    }
}

impl Admission {
    /// Whether anybody waits: who comes now is to wait too.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Waits until [`Admission::admit`] has room for `bytes`.
    pub async fn wait(&self, bytes: u64) {
        let ticket = Ticket { bytes, state: Cell::new(State::Waiting), waker: RefCell::new(Waker::noop().clone()) };
        let wait = Wait { admission: self, ticket: Rc::new(ticket) };
        self.waiting.borrow_mut().push_back(wait.ticket.clone());
        poll_fn(|cx| {
            if wait.ticket.state.get() == State::Admitted {
                wait.ticket.state.set(State::Over);
                self.go(bytes);
                return Poll::Ready(());
            }
            wait.ticket.waker.borrow_mut().clone_from(cx.waker());
            Poll::Pending
        })
        .await;
    }

    fn go(&self, bytes: u64) {
        self.admitted.set(self.admitted.get() - bytes);
    }

    /// Lets those go that came first, as far as `room` reaches. A write that is larger than the room goes while there
    /// is any.
    pub fn admit(&self, room: u64) {
        let mut room = room.saturating_sub(self.admitted.get());
        while room > 0 {
            let Some(ticket) = self.waiting.borrow_mut().pop_front() else { return };
            if ticket.state.get() == State::Over {
                continue;
            }
            ticket.state.set(State::Admitted);
            self.admitted.set(self.admitted.get() + ticket.bytes);
            room = room.saturating_sub(ticket.bytes);
            ticket.waker.borrow().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::Context;

    use super::*;

    fn is_ready<F: Future>(future: Pin<&mut F>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_first_go_first_and_no_more_than_fit() {
        let admission = Admission::default();
        let (mut a, mut b, mut c) = (pin!(admission.wait(60)), pin!(admission.wait(60)), pin!(admission.wait(1)));
        assert!(!is_ready(a.as_mut()) && !is_ready(b.as_mut()) && !is_ready(c.as_mut()));
        admission.admit(0);
        assert!(!is_ready(a.as_mut()));
        admission.admit(50);
        // What was let go counts until it has gone.
        admission.admit(50);
        assert!(!is_ready(b.as_mut()) && is_ready(a.as_mut()));
        assert!(admission.is_waiting());
        admission.admit(100);
        assert!(is_ready(b.as_mut()) && is_ready(c.as_mut()));
        assert!(!admission.is_waiting());
    }

    #[test]
    fn who_gives_up_takes_no_room() {
        let admission = Admission::default();
        let mut c = pin!(admission.wait(20));
        {
            let (mut a, mut b) = (pin!(admission.wait(60)), pin!(admission.wait(60)));
            assert!(!is_ready(a.as_mut()) && !is_ready(b.as_mut()) && !is_ready(c.as_mut()));
            admission.admit(1);
        }
        // The first was let go and gave up, the second gave up before: its turn.
        assert!(is_ready(c.as_mut()));
        assert_eq!(admission.admitted.get(), 0);
        assert!(!admission.is_waiting());
    }
}
