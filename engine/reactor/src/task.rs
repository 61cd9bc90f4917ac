//! Tasks: one allocation each, woken from any thread, polled and dropped only on their shard's.
//!
//! Invariants
//! 1. `state`, `position` and the future are touched only on the shard's thread. Other threads touch `references`,
//!    `notified` and `remote`.
//! 2. A live task (neither finished nor discarded) is in its shard's table, which owns a reference. Run queues hold
//!    live tasks only, so that their entries own nothing.
//! 3. The future is gone before the shard is: whoever drops the last reference, wherever, frees memory only.
//!
//! A wake on the shard's own thread changes plain cells. A wake from elsewhere sets `notified` and, when it was not
//! set, leaves a reference in the shard's `Remote`; the shard clears `notified` *before* it polls. Both are
//! read-modify-write operations: whatever the waker wrote before is visible to the poll that follows, also when the
//! waker found `notified` set already. (Finding it set by a plain load would lose such a wake: the load may be
//! performed before the waker's own earlier writes are visible.)

use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::Group;
use crate::shard::{Remote, Shard};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for a wake.
    Idle,
    /// In a run queue.
    Queued,
    Running,
    /// Being polled and woken meanwhile: goes back to the queue.
    Woken,
    /// Finished or discarded: the future is gone.
    Finished,
}

struct Header {
    references: AtomicUsize,
    /// A reference is on its way through `remote`.
    notified: AtomicBool,
    state: Cell<State>,
    group: Group,
    /// Position in the shard's table of live tasks.
    position: Cell<u32>,
    name: &'static str,
    remote: Arc<Remote>,
    functions: &'static Functions,
}

/// What depends on the future's type.
struct Functions {
    /// Polls once. True when finished; the future is then dropped.
    poll: unsafe fn(NonNull<Header>) -> bool,
    drop_future: unsafe fn(NonNull<Header>),
    free: unsafe fn(NonNull<Header>),
}

/// The header comes first, so that a pointer to it is one to the task.
#[repr(C)]
struct Task<F> {
    header: Header,
    future: UnsafeCell<Option<F>>,
}

impl<F: Future<Output = ()> + 'static> Task<F> {
    const FUNCTIONS: Functions = Functions { poll: Self::poll, drop_future: Self::drop_future, free: Self::free };

    /// # Safety
    /// `header` begins a live `Task<F>`; on the shard's thread; not within another poll of it.
    unsafe fn poll(header: NonNull<Header>) -> bool {
        // Borrows the caller's reference: a poll that stores no waker touches no counter.
        // SAFETY: `header` stays live through the poll by the caller's promise; the waker is never dropped.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw_waker(header)) });
        // SAFETY: by the caller's promise; nobody else has access to the future.
        let future = unsafe { &mut *header.cast::<Task<F>>().as_ref().future.get() };
        let Some(pending) = future else { return true };
        // SAFETY: the future stays where it is in its allocation until it is dropped in place.
        let pending = unsafe { Pin::new_unchecked(pending) };
        let finished = pending.poll(&mut Context::from_waker(&waker)).is_ready();
        if finished {
            *future = None;
        }
        finished
    }

    /// # Safety
    /// As for `poll`.
    unsafe fn drop_future(header: NonNull<Header>) {
        // SAFETY: by the caller's promise.
        unsafe { *header.cast::<Task<F>>().as_ref().future.get() = None };
    }

    /// # Safety
    /// `header` begins a `Task<F>` whose last reference is gone.
    unsafe fn free(header: NonNull<Header>) {
        // SAFETY: the pointer came from a box of this type, leaked in `TaskRef::new`.
        drop(unsafe { Box::from_raw(header.cast::<Task<F>>().as_ptr()) });
    }
}

/// A counted reference to a task.
pub(crate) struct TaskRef(NonNull<Header>);

// SAFETY: see the module's invariants: what is reached through a reference on another thread is atomic or immutable.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        // A new reference is made from one that is held: nothing to synchronise with, as in `Arc`.
        self.header().references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        if self.header().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last reference.
            unsafe { (self.header().functions.free)(self.0) };
        }
    }
}

impl TaskRef {
    /// A task that counts as queued; the caller puts it into table and queue.
    pub(crate) fn new<F: Future<Output = ()> + 'static>(
        future: F,
        group: Group,
        name: &'static str,
        remote: Arc<Remote>,
    ) -> Self {
        let header = Header {
            references: AtomicUsize::new(1),
            notified: AtomicBool::new(false),
            state: Cell::new(State::Queued),
            group,
            position: Cell::new(u32::MAX),
            name,
            remote,
            functions: &Task::<F>::FUNCTIONS,
        };
        let mut task = Box::<Task<F>>::new_uninit();
        let place = task.as_mut_ptr();
        // Field by field: the future, of kilobytes, goes straight to its place.
        // SAFETY: the place is a box's, and both fields of the task are written.
        let task = unsafe {
            (&raw mut (*place).header).write(header);
            (&raw mut (*place).future).write(UnsafeCell::new(Some(future)));
            task.assume_init()
        };
        Self(NonNull::from(Box::leak(task)).cast())
    }

    fn header(&self) -> &Header {
        // SAFETY: a reference keeps the task allocated.
        unsafe { self.0.as_ref() }
    }

    /// The entry of a run queue.
    pub(crate) fn queued(&self) -> Queued {
        Queued(self.0)
    }

    pub(crate) fn set_position(&self, position: u32) {
        self.header().position.set(position);
    }

    /// Wakes the task, from any thread.
    fn wake(self) {
        let header = self.header();
        if Shard::try_with(|shard| header.wake_on(shard, self.0)) == Some(true) {
            return;
        }
        if !header.notified.swap(true, Ordering::AcqRel) {
            let remote = header.remote.clone();
            remote.push_task(self);
        }
    }

    /// A wake from another thread has arrived on the shard's.
    pub(crate) fn take_notice(self, shard: &Shard) {
        let header = self.header();
        header.notified.swap(false, Ordering::AcqRel);
        header.wake_on(shard, self.0);
    }

    /// Drops the future. On the shard's thread, and not while the task is polled.
    pub(crate) fn discard(&self) {
        self.header().state.set(State::Finished);
        // SAFETY: by the caller's promise, which `Shard::close` checks.
        unsafe { (self.header().functions.drop_future)(self.0) };
    }
}

impl Header {
    /// Wakes the task if it is one of `shard`'s, whose thread this is.
    #[inline]
    fn wake_on(&self, shard: &Shard, this: NonNull<Header>) -> bool {
        if !std::ptr::eq(Arc::as_ptr(&self.remote), shard.remote_ptr()) {
            return false;
        }
        match self.state.get() {
            State::Idle => {
                self.state.set(State::Queued);
                shard.enqueue(Queued(this));
            }
            State::Running => self.state.set(State::Woken),
            State::Queued | State::Woken | State::Finished => {}
        }
        true
    }
}

/// A live task in a run queue of its shard (invariant 2). Owns nothing.
pub(crate) struct Queued(NonNull<Header>);

impl Queued {
    fn header(&self) -> &Header {
        // SAFETY: the task is live: the shard's table keeps it allocated until it has run.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn group(&self) -> Group {
        self.header().group
    }

    pub(crate) fn name(&self) -> &'static str {
        self.header().name
    }

    /// Polls the task. When it has finished: its position in the shard's table, whose reference is to be let go.
    #[inline]
    pub(crate) fn run(self, shard: &Shard) -> Option<u32> {
        let header = self.header();
        header.state.set(State::Running);
        // SAFETY: on the shard's thread; state `Running` was not set before, so that this is the only poll.
        if unsafe { (header.functions.poll)(self.0) } {
            header.state.set(State::Finished);
            return Some(header.position.get());
        }
        if header.state.get() == State::Woken {
            header.state.set(State::Queued);
            shard.enqueue_again(self);
        } else {
            header.state.set(State::Idle);
        }
        None
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(waker_clone, waker_wake, waker_wake_by_ref, waker_drop);

fn raw_waker(header: NonNull<Header>) -> RawWaker {
    RawWaker::new(header.as_ptr().cast(), &WAKER)
}

/// # Safety
/// `data` came from `raw_waker` and its task is allocated.
unsafe fn borrowed(data: *const ()) -> ManuallyDrop<TaskRef> {
    // SAFETY: by the caller's promise never null.
    ManuallyDrop::new(TaskRef(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }))
}

unsafe fn waker_clone(data: *const ()) -> RawWaker {
    // SAFETY: a waker's data; the clone's reference now belongs to the new waker.
    let task = ManuallyDrop::new(TaskRef::clone(&*unsafe { borrowed(data) }));
    raw_waker(task.0)
}

unsafe fn waker_wake(data: *const ()) {
    // SAFETY: a waker's data; the waker is consumed, so that its reference is ours.
    ManuallyDrop::into_inner(unsafe { borrowed(data) }).wake();
}

unsafe fn waker_wake_by_ref(data: *const ()) {
    // SAFETY: a waker's data.
    let task = unsafe { borrowed(data) };
    if Shard::try_with(|shard| task.header().wake_on(shard, task.0)) != Some(true) {
        TaskRef::clone(&task).wake();
    }
}

unsafe fn waker_drop(data: *const ()) {
    // SAFETY: a waker's data; the waker's reference is given up.
    drop(ManuallyDrop::into_inner(unsafe { borrowed(data) }));
}

struct Joint<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

/// Resolves to the task's output. Dropping it leaves the task running.
///
/// On a shard that closes, the task may never finish; then the handle never resolves, and is dropped with its owner.
pub struct JoinHandle<T> {
    joint: Rc<Joint<T>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.joint.value.borrow_mut().take() {
            Some(value) => Poll::Ready(value),
            None => {
                *self.joint.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A future whose output reaches a [`JoinHandle`]. Written out: an `async` block would keep the future twice, once as
/// what it captured and once as what it awaits.
pub(crate) struct Joinable<F: Future> {
    future: F,
    joint: Rc<Joint<F::Output>>,
}

/// Wraps `future` so that its output reaches the handle.
pub(crate) fn joinable<F: Future>(future: F) -> (Joinable<F>, JoinHandle<F::Output>) {
    let joint = Rc::new(Joint { value: RefCell::new(None), waker: RefCell::new(None) });
    let handle = JoinHandle { joint: joint.clone() };
    (Joinable { future, joint }, handle)
}

impl<F: Future> Future for Joinable<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` stays where it is: it is reached by this projection and by dropping the whole alone.
        let (future, joint) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &this.joint)
        };
        future.poll(cx).map(|value| {
            // Nobody holds the handle any more: the output would only be kept for nothing.
            if Rc::strong_count(joint) > 1 {
                *joint.value.borrow_mut() = Some(value);
                if let Some(waker) = joint.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        })
    }
}
