//! Files and folders.

use std::io::ErrorKind;

use reactor::fs::{self, File};
use reactor::{Buf, Group, OpenFlags};

use super::*;

pub fn what_is_written_is_read<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), &pattern(0, 10_000)).await;
        let read = File::open(&place.path("a"), READ).await.unwrap();
        let (n, buf) = read.read_at(100, 5000, Buf::new()).await;
        assert_eq!((n.unwrap(), &*buf), (5000, &pattern(100, 5000)[..]));
        file.write_all_at(200, Buf::from(&b"over"[..])).await.0.unwrap();
        let (_, buf) = read.read_at(199, 6, Buf::new()).await;
        assert_eq!(&buf[1..5], b"over");
        assert_eq!((buf[0], buf[5]), (pattern(199, 1)[0], pattern(204, 1)[0]));
        assert_eq!(read.size().await.unwrap(), 10_000);
        assert_eq!(fs::read(&place.path("a")).await.unwrap().len(), 10_000);
    });
}

pub fn a_read_appends_behind_what_is_there<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"0123456789").await;
        let file = File::open(&place.path("a"), READ).await.unwrap();
        let (n, buf) = file.read_at(2, 3, Buf::from(&b"kept"[..])).await;
        assert_eq!((n.unwrap(), &*buf), (3, &b"kept234"[..]));
    });
}

pub fn a_read_at_the_end_is_short<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"0123456789").await;
        let file = File::open(&place.path("a"), READ).await.unwrap();
        let (n, buf) = file.read_at(7, 100, Buf::new()).await;
        assert_eq!((n.unwrap(), &*buf), (3, &b"789"[..]));
        assert_eq!(file.read_at(10, 100, Buf::new()).await.0.unwrap(), 0);
        assert_eq!(file.read_at(1_000_000, 100, Buf::new()).await.0.unwrap(), 0);
    });
}

pub fn direct_files_move_whole_blocks<W: World>() {
    run::<W, _>(1, |place| async move {
        let flags = OpenFlags { read: true, direct: true, ..CREATE };
        let file = File::open(&place.path("a"), flags).await.unwrap();
        let bytes = pattern(0, 5 * Buf::DIRECT_ALIGN);
        file.write_all_at(0, direct(&bytes)).await.0.unwrap();
        file.datasync().await.unwrap();
        let (n, buf) = file.read_at(4096, 2 * 4096, Buf::direct(2 * 4096)).await;
        assert_eq!((n.unwrap(), &*buf), (2 * 4096, &bytes[4096..3 * 4096]));
        // From any logical block of the device, into memory that is aligned as for whole blocks.
        let align = file.read_align();
        assert!(align.is_power_of_two() && align <= Buf::DIRECT_ALIGN, "{align}");
        let (n, buf) = file.read_at(4096 + align as u64, 3 * align, Buf::direct(3 * align)).await;
        assert_eq!((n.unwrap(), &*buf), (3 * align, &bytes[4096 + align..4096 + 4 * align]));
        // The end within a block: a short read, and nothing made up.
        file.truncate(4096 + 1000).await.unwrap();
        let (n, buf) = file.read_at(0, 4 * 4096, Buf::direct(4 * 4096)).await;
        assert_eq!((n.unwrap(), &*buf), (5096, &bytes[..5096]));
    });
}

pub fn a_hole_reads_as_zeros<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = File::open(&place.path("a"), OpenFlags { read: true, ..CREATE }).await.unwrap();
        file.write_all_at(9000, Buf::from(&b"end"[..])).await.0.unwrap();
        let (n, buf) = file.read_at(0, 10_000, Buf::new()).await;
        assert_eq!(n.unwrap(), 9003);
        assert!(buf[..9000].iter().all(|&b| b == 0) && &buf[9000..] == b"end");
    });
}

pub fn many_operations_at_once_each_get_their_own<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = File::open(&place.path("a"), OpenFlags { read: true, ..CREATE }).await.unwrap();
        let writes: Vec<_> = (0..300usize)
            .map(|i| {
                let file = file.clone();
                reactor::spawn(Group::Flush, "write", async move {
                    file.write_all_at(i as u64 * 512, Buf::from(pattern(i * 512, 512))).await.0.unwrap();
                })
            })
            .collect();
        for write in writes {
            write.await;
        }
        let reads: Vec<_> = (0..300usize)
            .rev()
            .map(|i| {
                let file = file.clone();
                reactor::spawn(Group::Statement, "read", async move {
                    let (n, buf) = file.read_at(i as u64 * 512, 512, Buf::new()).await;
                    assert_eq!(n.unwrap(), 512);
                    assert!(*buf == pattern(i * 512, 512), "read {i} got another's bytes");
                })
            })
            .collect();
        for read in reads {
            read.await;
        }
    });
}

pub fn a_missing_file_is_not_found<W: World>() {
    run::<W, _>(1, |place| async move {
        let error = File::open(&place.path("none"), READ).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(fs::remove(&place.path("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&place.path("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::sync_dir(&place.path("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read(&place.path("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
        let error = File::open(&place.path("no/folder"), CREATE).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

pub fn an_exclusive_create_finds_it_there<W: World>() {
    run::<W, _>(1, |place| async move {
        let flags = OpenFlags { exclusive: true, ..CREATE };
        File::open(&place.path("a"), flags).await.unwrap();
        let error = File::open(&place.path("a"), flags).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    });
}

pub fn truncate_on_open_empties<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"old and long").await;
        let file = File::open(&place.path("a"), OpenFlags { truncate: true, ..CREATE }).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 0);
    });
}

pub fn a_file_open_for_reading_refuses_writes<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"fixed").await;
        let file = File::open(&place.path("a"), READ).await.unwrap();
        let (result, buf) = file.write_all_at(0, Buf::from(&b"x"[..])).await;
        assert!(result.is_err());
        assert_eq!(&*buf, b"x", "the buffer comes back with the error");
        assert_eq!(fs::read(&place.path("a")).await.unwrap(), b"fixed");
    });
}

pub fn a_path_with_a_zero_byte_is_invalid<W: World>() {
    run::<W, _>(1, |place| async move {
        let error = File::open(&place.path("a\0b"), CREATE).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

pub fn truncate_shrinks_and_grows<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), b"0123456789").await;
        file.truncate(4).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 4);
        file.truncate(8).await.unwrap();
        assert_eq!(fs::read(&place.path("a")).await.unwrap(), b"0123\0\0\0\0");
    });
}

pub fn allocation_keeps_the_size<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), b"0123456789").await;
        file.allocate(0, 1 << 20).await.unwrap();
        assert_eq!(file.size().await.unwrap(), 10);
        assert_eq!(fs::read(&place.path("a")).await.unwrap(), b"0123456789");
    });
}

pub fn datasync_succeeds<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), b"0123456789").await;
        file.datasync().await.unwrap();
        fs::sync_dir(&place.dir).await.unwrap();
        let flags = OpenFlags { dsync: true, ..CREATE };
        let file = File::open(&place.path("b"), flags).await.unwrap();
        file.write_all_at(0, Buf::from(&b"durable"[..])).await.0.unwrap();
        assert_eq!(fs::read(&place.path("b")).await.unwrap(), b"durable");
    });
}

pub fn clones_share_the_file<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = File::open(&place.path("a"), OpenFlags { read: true, ..CREATE }).await.unwrap();
        let clone = file.clone();
        drop(file);
        clone.write_all_at(0, Buf::from(&b"still open"[..])).await.0.unwrap();
        assert_eq!(clone.size().await.unwrap(), 10);
    });
}

pub fn rename_replaces<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"new").await;
        let old = file_with(&place.path("b"), b"old").await;
        fs::rename(&place.path("a"), &place.path("b")).await.unwrap();
        assert_eq!(fs::read(&place.path("b")).await.unwrap(), b"new");
        assert_eq!(fs::read_dir(&place.dir).await.unwrap(), ["b"]);
        old.write_all_at(0, Buf::from(&b"to the file without a name"[..])).await.0.unwrap();
        assert_eq!(fs::read(&place.path("b")).await.unwrap(), b"new");
    });
}

pub fn rename_of_nothing_is_not_found<W: World>() {
    run::<W, _>(1, |place| async move {
        let error = fs::rename(&place.path("a"), &place.path("b")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

pub fn link_names_the_same_bytes<W: World>() {
    run::<W, _>(1, |place| async move {
        let file = file_with(&place.path("a"), b"one").await;
        fs::link(&place.path("a"), &place.path("b")).await.unwrap();
        file.write_all_at(0, Buf::from(&b"two"[..])).await.0.unwrap();
        assert_eq!(fs::read(&place.path("b")).await.unwrap(), b"two");
        fs::remove(&place.path("a")).await.unwrap();
        assert_eq!(fs::read(&place.path("b")).await.unwrap(), b"two");
        file_with(&place.path("c"), b"").await;
        let error = fs::link(&place.path("b"), &place.path("c")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    });
}

pub fn an_unlinked_file_stays_open<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"here").await;
        let file = File::open(&place.path("a"), READ).await.unwrap();
        fs::remove(&place.path("a")).await.unwrap();
        let (n, buf) = file.read_at(0, 4, Buf::new()).await;
        assert_eq!((n.unwrap(), &*buf), (4, &b"here"[..]));
        assert!(fs::read_dir(&place.dir).await.unwrap().is_empty());
    });
}

pub fn folders_are_made_listed_and_removed<W: World>() {
    run::<W, _>(1, |place| async move {
        fs::create_dir(&place.path("d")).await.unwrap();
        fs::create_dir(&place.path("d")).await.unwrap();
        for name in ["d/zz", "d/B", "d/a-2", "d/a-10"] {
            file_with(&place.path(name), b"").await;
        }
        fs::create_dir(&place.path("d/sub")).await.unwrap();
        assert_eq!(fs::read_dir(&place.path("d")).await.unwrap(), ["B", "a-10", "a-2", "sub", "zz"]);
        assert!(fs::remove_dir(&place.path("d")).await.is_err(), "it is not empty");
        assert!(fs::create_dir(&place.path("d/B")).await.is_err(), "a file is there");
        for name in ["d/zz", "d/B", "d/a-2", "d/a-10"] {
            fs::remove(&place.path(name)).await.unwrap();
        }
        fs::remove_dir(&place.path("d/sub")).await.unwrap();
        fs::sync_dir(&place.path("d")).await.unwrap();
        fs::remove_dir(&place.path("d")).await.unwrap();
        assert!(fs::read_dir(&place.dir).await.unwrap().is_empty());
    });
}

pub fn replace_leaves_one_whole_file<W: World>() {
    run::<W, _>(1, |place| async move {
        fs::replace(&place.dir, "manifest", b"first, and longer").await.unwrap();
        fs::replace(&place.dir, "manifest", b"second").await.unwrap();
        assert_eq!(fs::read(&place.path("manifest")).await.unwrap(), b"second");
        assert_eq!(fs::read_dir(&place.dir).await.unwrap(), ["manifest"]);
    });
}

/// More than the usual limit of 1024 open files: a close that is forgotten shows.
pub fn many_files_opened_and_dropped_close<W: World>() {
    run::<W, _>(1, |place| async move {
        file_with(&place.path("a"), b"x").await;
        for _ in 0..1500 {
            drop(File::open(&place.path("a"), READ).await.unwrap());
        }
        settle(0).await;
    });
}
