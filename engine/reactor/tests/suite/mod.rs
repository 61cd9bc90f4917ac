//! What every world must do, as one list of tests.
//!
//! A backend's test file implements [`World`] and writes `conformance!(ItsWorld);`: each test below becomes a
//! `#[test]` there. A test knows nothing of its world: it gets a folder and an address that are its own, and waits
//! by the shard's clock.

#![allow(dead_code, unused_imports)]
#![allow(clippy::waker_clone_wake)] // by value and by reference are two ways to wake; both are tested
#![allow(clippy::async_yields_async)] // a handle of a task is an output like any other

pub mod files;
pub mod io;
pub mod net;
pub mod ownership;
pub mod shards;
pub mod tasks;
pub mod timers;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reactor::{Buf, OpenFlags, fs::File};

/// Where a test may leave files and listen.
#[derive(Clone, Debug)]
pub struct Place {
    /// An empty folder, without a slash at the end.
    pub dir: String,
    /// An address of the host that no other test uses.
    pub ip: IpAddr,
}

impl Place {
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    pub fn addr(&self, n: u16) -> SocketAddr {
        SocketAddr::new(self.ip, 17000 + n)
    }
}

pub trait World {
    /// Runs `main` on shard 0 of a fresh host with `shards` shards, and ends the host when it is ready. Panics when
    /// any task panics. Whatever still runs then is dropped before `run` returns.
    fn run<Fut: Future<Output = ()> + 'static>(shards: usize, main: impl FnOnce(Place) -> Fut + Send + 'static);
}

/// [`World::run`] with an end for tests that hang.
pub fn run<W: World, Fut: Future<Output = ()> + 'static>(
    shards: usize,
    main: impl FnOnce(Place) -> Fut + Send + 'static,
) {
    W::run(shards, move |place| {
        let main = main(place);
        async move { reactor::time::timeout(Duration::from_secs(120), main).await.expect("the test hangs") }
    });
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const READ: OpenFlags = OpenFlags {
    read: true,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    direct: false,
    dsync: false,
};
pub const CREATE: OpenFlags = OpenFlags { write: true, create: true, ..READ };

/// Bytes that tell where in a stream they belong.
pub fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

pub fn direct(bytes: &[u8]) -> Buf {
    let mut buf = Buf::direct(bytes.len());
    buf.extend_from_slice(bytes);
    buf
}

pub async fn file_with(path: &str, bytes: &[u8]) -> File {
    let file = File::open(path, CREATE).await.unwrap();
    file.write_all_at(0, Buf::from(bytes)).await.0.unwrap();
    file
}

pub fn in_flight() -> usize {
    reactor::Shard::with(|shard| shard.in_flight())
}

/// Waits until nothing but `expected` operations is in flight.
pub async fn settle(expected: usize) {
    for _ in 0..2000 {
        if in_flight() <= expected {
            return;
        }
        reactor::time::sleep(ms(1)).await;
    }
    panic!("{} operations in flight, {expected} expected", in_flight());
}

macro_rules! conformance {
    ($world:ty) => {
        conformance! { $world:
            files::{
                what_is_written_is_read, a_read_appends_behind_what_is_there, a_read_at_the_end_is_short,
                direct_files_move_whole_blocks, a_hole_reads_as_zeros, many_operations_at_once_each_get_their_own,
                a_missing_file_is_not_found, an_exclusive_create_finds_it_there, truncate_on_open_empties,
                a_file_open_for_reading_refuses_writes, a_path_with_a_zero_byte_is_invalid,
                truncate_shrinks_and_grows, allocation_keeps_the_size, datasync_succeeds, clones_share_the_file,
                rename_replaces, rename_of_nothing_is_not_found, link_names_the_same_bytes, an_unlinked_file_stays_open,
                folders_are_made_listed_and_removed, replace_leaves_one_whole_file,
                many_files_opened_and_dropped_close,
            }
            io::{
                more_than_the_depth_at_once_are_all_done, operations_dropped_in_the_queue_leave_nothing,
                each_group_is_a_class_of_its_own, shares_change_while_it_runs,
            }
            net::{
                echo, bytes_keep_their_order, a_slow_reader_gets_everything, the_end_is_zero_bytes,
                shutdown_ends_both_directions, refused_where_nobody_listens, connect_from_a_given_address,
                a_dropped_accept_takes_no_connection, a_dropped_receive_loses_nothing_sent_later,
                two_shards_share_a_port, a_full_buffer_is_no_place_to_receive, a_vanished_peer_fails_the_sender,
                many_connections_at_once, closing_under_load_ends_everything, a_message_of_one_byte_and_an_empty_one,
            }
            timers::{
                sleeps_end_in_order_and_not_early, a_past_deadline_is_ready, timeouts_give_up_or_give,
                a_ready_future_beats_its_deadline, a_dropped_sleep_wakes_nobody, dropped_timers_leave_no_heap,
                the_clock_never_goes_back, sleeps_of_one_deadline_end_in_order_of_setting,
            }
            tasks::{
                tasks_run_in_the_order_they_were_woken, a_join_gives_the_output, a_dropped_handle_leaves_the_task,
                yielding_takes_turns,
                who_gives_way_goes_behind_those_that_come_later, who_gives_way_is_not_starved, wakes_before_a_poll_are_one, a_task_wakes_itself_while_it_runs,
                groups_share_by_their_shares, an_idle_group_saves_nothing_up, tasks_keep_their_group,
                locals_are_found_by_type, what_runs_in_place_may_wait, tasks_end_with_the_host,
                queues_semaphores_and_notices,
            }
            ownership::{
                a_dropped_reads_buffer_is_not_reused, churn_does_not_grow_the_tables,
                dropped_operations_free_their_slots, buffers_come_back, what_is_in_flight_ends_with_the_host,
                a_dropped_open_leaks_nothing,
            }
            shards::{
                a_call_runs_on_its_shard_in_its_group, calls_to_one_shard_keep_their_order,
                a_shard_calls_itself, everybody_calls_everybody, calls_travel_on, each_shard_has_its_locals,
                a_dropped_call_runs_all_the_same, descriptors_serve_every_shard,
            }
        }
    };
    ($world:ty: $($room:ident::{$($test:ident),* $(,)?})*) => {
        $(mod $room {
            #[allow(unused_imports)]
            use super::*;

            $(#[test]
            fn $test() {
                crate::suite::$room::$test::<$world>();
            })*
        })*
    };
}
