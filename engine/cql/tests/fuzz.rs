//! Hostile bytes and texts: whatever is decoded or parsed, there is an answer or an error, soon, and never a panic.
//!
//! The suite has some thousand cases of each; `ORRERY_FUZZ_SECONDS` says for how long to go on, with new cases every
//! time. A failure prints the case, made small.

#![allow(
    clippy::disallowed_methods,
    reason = "a fuzzer stands outside of every simulated world, and watches the clock"
)]

use std::time::{Duration, Instant};

use cql::frame::{self, BODY_MAX};
use cql::segment::{self, SegmentBuffer};
use cql::{Compression, Direction, FrameBuffer, Opcode, Request, Response, Version};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};
use types::CqlType;

/// A case is a few kilobytes: what takes longer on a loaded machine has no bound.
const CASE_MAX: Duration = Duration::from_secs(10);
const CASES: u32 = 2000;

/// Checks cases until the time is up; once through without one.
fn fuzz<S: Strategy<Value: Clone>>(strategy: S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seconds = std::env::var("ORRERY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    // The suite's cases are the same every time.
    let algorithm = config.rng_algorithm;
    let mut runner = match seconds {
        0 => TestRunner::new_with_rng(config.clone(), TestRng::deterministic_rng(algorithm)),
        _ => TestRunner::new(config.clone()),
    };
    let mut cases = 0;
    loop {
        let took = |case| {
            let begun = Instant::now();
            check(case).map(|()| begun.elapsed())
        };
        let timed = |case: S::Value| {
            let mut time = took(case.clone())?;
            if time >= CASE_MAX {
                // Perhaps the machine did something else.
                time = took(case)?;
            }
            prop_assert!(time < CASE_MAX, "the case took {time:?}");
            Ok(())
        };
        if let Err(error) = runner.run(&strategy, timed) {
            panic!("{error}");
        }
        cases += CASES;
        if Instant::now() >= end {
            println!("{cases} cases");
            return;
        }
        runner = TestRunner::new(config.clone());
    }
}

/// One change to bytes; places are parts of their length.
#[derive(Clone, Debug)]
enum Change {
    Flip(f64, u8),
    /// Numbers that lengths and counts are likely to choke on.
    Number(f64, u32),
    Cut(f64),
    Insert(f64, Vec<u8>),
    Copy(f64, f64, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = || 0.0..1.0f64;
    let number =
        prop_oneof![Just(0u32), Just(1), Just(u32::MAX), Just(i32::MAX as u32), Just(0x8000_0000), any::<u32>()];
    let change = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (at(), number).prop_map(|(at, number)| Change::Number(at, number)),
        at().prop_map(Change::Cut),
        (at(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), at(), 1..60usize).prop_map(|(from, to, len)| Change::Copy(from, to, len)),
    ];
    prop::collection::vec(change, 0..5)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |part: f64, bytes: &[u8]| (bytes.len() as f64 * part) as usize;
        match change {
            _ if bytes.is_empty() => {}
            Change::Flip(at, bits) => {
                let at = place(*at, &bytes);
                bytes[at] ^= bits;
            }
            Change::Number(at, number) => {
                let at = place(*at, &bytes);
                bytes.iter_mut().skip(at).zip(number.to_be_bytes()).for_each(|(byte, new)| *byte = new);
            }
            Change::Cut(at) => bytes.truncate(place(*at, &bytes)),
            Change::Insert(at, new) => {
                let at = place(*at, &bytes);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Copy(from, to, len) => {
                let (from, to) = (place(*from, &bytes), place(*to, &bytes));
                let part = bytes[from..(from + len).min(bytes.len())].to_vec();
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

/// Bodies of requests and responses as they are sent, to begin with.
const BODIES: &[(Opcode, &[u8])] = &[
    (Opcode::Startup, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"),
    (Opcode::Options, b""),
    (Opcode::Register, b"\x00\x02\x00\x0dSCHEMA_CHANGE\x00\x0dSTATUS_CHANGE"),
    (Opcode::AuthResponse, b"\x00\x00\x00\x04\x00a\x00b"),
    (
        Opcode::Query,
        b"\x00\x00\x00\x08SELECT 1\x00\x01\x7f\x00\x01\x00\x01n\x00\x00\x00\x01v\x00\x00\x00\x64\x00\x00\x00\x02ps\
          \x00\x08\x00\x00\x00\x00\x00\x00\x00\x05",
    ),
    (Opcode::Prepare, b"\x00\x00\x00\x0fSELECT * FROM t"),
    (Opcode::Execute, b"\x00\x02id\x00\x04\x07\x00\x02\x00\x00\x00\x01x\xff\xff\xff\xff\x00\x00\x13\x88"),
    (
        Opcode::Batch,
        b"\x00\x00\x02\x00\x00\x00\x00\x03abc\x00\x00\x01\x00\x02id\x00\x01\x00\x00\x00\x01v\x00\x01\x30\x00\x08\
          \x00\x00\x00\x00\x00\x00\x00\x05",
    ),
    (
        Opcode::Result,
        b"\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01k\x00\x01t\x00\x01a\x00\x09\x00\x01b\x00\x22\x00\x0d\
          \x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x07\xff\xff\xff\xff",
    ),
    (Opcode::Error, b"\x00\x00\x11\x00\x00\x05error\x00\x04\x00\x00\x00\x01\x00\x00\x00\x02\x00\x06SIMPLE"),
    (Opcode::Event, b"\x00\x0dSCHEMA_CHANGE\x00\x07CREATED\x00\x05TABLE\x00\x01k\x00\x01t"),
    (Opcode::Supported, b"\x00\x01\x00\x0bCQL_VERSION\x00\x01\x00\x053.0.0"),
];

#[test]
fn frames() {
    let version = prop::sample::select(vec![Version::V3, Version::V4, Version::V5]);
    let one = (prop::sample::select(BODIES), version, any::<u8>(), changes());
    let compression = prop::sample::select(vec![Compression::None, Compression::Lz4, Compression::Snappy]);
    let pieces = prop::collection::vec(1..50usize, 1..20);
    let strategy = (prop::collection::vec(one, 1..4), changes(), compression, pieces);
    fuzz(strategy, |(frames, changes, compression, pieces)| {
        let mut bytes = Vec::new();
        for ((opcode, body), version, flags, changes) in frames {
            let flags = flags & !frame::FLAG_COMPRESSED;
            let start = frame::begin_version(&mut bytes, version, opcode, 7, flags);
            bytes.extend(changed(body.to_vec(), &changes));
            frame::finish(&mut bytes, start, compression).expect("it is short");
        }
        let bytes = changed(bytes, &changes);
        for direction in [Direction::Request, Direction::Response] {
            // It does not matter in which pieces bytes arrive.
            let whole = read(&bytes, &[bytes.len()], direction, compression);
            prop_assert_eq!(whole, read(&bytes, &pieces, direction, compression));
        }
        Ok(())
    });
}

/// What comes of bytes that arrive in pieces: each frame decoded, as text, and what ended it.
fn read(bytes: &[u8], pieces: &[usize], direction: Direction, compression: Compression) -> Vec<String> {
    let mut buffer = FrameBuffer::new(direction, BODY_MAX);
    let mut told = Vec::new();
    let mut rest = bytes;
    for len in pieces.iter().cycle() {
        let (piece, behind) = rest.split_at((*len).max(1).min(rest.len()));
        buffer.extend(piece);
        loop {
            match buffer.next_frame() {
                Ok(Some((header, body))) => {
                    let mut scratch = Vec::new();
                    let body = frame::plain_body(&header, body, compression, BODY_MAX, &mut scratch);
                    told.push(match (body, direction) {
                        (Err(error), _) => error.to_string(),
                        (Ok(body), Direction::Request) => format!("{:?}", Request::decode(&header, body)),
                        (Ok(body), Direction::Response) => format!("{:?}", Response::decode(&header, body)),
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    told.push(error.to_string());
                    return told;
                }
            }
        }
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    told
}

#[test]
fn segments() {
    let bodies = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..4);
    fuzz((bodies, any::<bool>(), changes()), |(bodies, lz4, changes)| {
        let mut frames = Vec::new();
        bodies.iter().for_each(|body| frame::write(&mut frames, Opcode::Query, 1, body));
        let mut segments = Vec::new();
        segment::encode(&mut segments, &frames, Direction::Request, lz4);
        let mut buffer = SegmentBuffer::new(lz4);
        buffer.extend(&changed(segments, &changes));
        let mut read = Vec::new();
        let end = loop {
            match buffer.next_payload(&mut read) {
                Ok(true) => {}
                Ok(false) => break true,
                Err(_) => break false,
            }
        };
        // Checksums guard them: a segment is as it was sent, or refused. But a copy of one is one.
        if changes.is_empty() {
            prop_assert!(end && read == frames);
        } else if !changes.iter().any(|change| matches!(change, Change::Copy(..))) {
            prop_assert!(frames.starts_with(&read), "another payload has passed the checksum");
        }
        Ok(())
    });
}

const STATEMENTS: &[&str] = &[
    "SELECT DISTINCT a, writetime(b), c[1], count(*), cast(d AS text) AS e FROM ks.t \
     WHERE a IN (1, ?) AND (b, c) > (:x, 'y')",
    "SELECT JSON * FROM t WHERE token(a) >= -5 AND b CONTAINS KEY 'k' GROUP BY a ORDER BY b DESC \
     PER PARTITION LIMIT 2 LIMIT ? ALLOW FILTERING BYPASS CACHE USING TIMEOUT 5s",
    "INSERT INTO t (a, b, c) VALUES (1.5e10, {'k': [1, 2], 'l': [{a: 1, b: (1, 2)}]}, 0xCAFE) IF NOT EXISTS \
     USING TTL 5 AND TIMESTAMP ?",
    "INSERT INTO t JSON '{\"a\": 1}' DEFAULT UNSET",
    "UPDATE t USING TTL ? SET a = a + 1, b[5] = 'x', c = {1} + c, d.f = null WHERE p = 1 IF a IN (1, 2) AND b[1] = 'x'",
    "DELETE a, b['k'] FROM t USING TIMESTAMP 5 WHERE p = 1 AND c >= 5 IF EXISTS",
    "BEGIN UNLOGGED BATCH USING TIMESTAMP 5 INSERT INTO t (a) VALUES (1); DELETE FROM t WHERE a = 2; APPLY BATCH",
    "CREATE TABLE IF NOT EXISTS ks.t (a int, b frozen<map<text, list<int>>> static, c vector<float, 3>, \
     PRIMARY KEY ((a), c)) WITH CLUSTERING ORDER BY (c DESC) AND compaction = {'class': 'x'} AND comment = 'it''s'",
    "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a IS NOT NULL PRIMARY KEY (a) WITH gc_grace_seconds = 5",
    "CREATE FUNCTION f (a int, b text) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS $$ return a $$",
    "CREATE AGGREGATE g (int) SFUNC f STYPE tuple<int, int> FINALFUNC h INITCOND (0, 0)",
    "CREATE CUSTOM INDEX IF NOT EXISTS i ON t (values(m)) USING 'x' WITH OPTIONS = {'a': 'b'}",
    "CREATE ROLE r WITH PASSWORD = 'x' AND LOGIN = true AND SUPERUSER = false AND OPTIONS = {'a': 1}",
    "GRANT SELECT ON KEYSPACE ks TO r",
    "ALTER TABLE t ADD (a int, b text) ; ",
    "ALTER TYPE ks.ty RENAME a TO b AND c TO d",
    "TRUNCATE TABLE t USING TIMEOUT 1h",
    "USE \"Ks\"",
    "PRUNE MATERIALIZED VIEW v WHERE a = 1",
    "CREATE SERVICE LEVEL sl WITH timeout = 5ms AND workload_type = 'batch'",
    "-- comment\nSELECT 1 /* more */ FROM t // end",
];

/// Statements with a word in another's place, with bytes changed, and with something nested very deep.
fn statements() -> impl Strategy<Value = String> {
    let statement = || prop::sample::select(STATEMENTS);
    let word = prop_oneof![
        (statement(), 0.0..1.0f64).prop_map(|(text, at)| {
            let words: Vec<&str> = text.split(' ').collect();
            words[(words.len() as f64 * at) as usize].to_string()
        }),
        "[a-z\"'$(){}\\[\\]<>,;:?=.0-9é -]{1,8}",
    ];
    let mixed = (statement(), prop::collection::vec((0.0..1.0f64, word), 1..6)).prop_map(|(text, new)| {
        let mut words: Vec<String> = text.split(' ').map(str::to_string).collect();
        for (at, word) in new {
            let at = (words.len() as f64 * at) as usize;
            words[at] = word;
        }
        words.join(" ")
    });
    let changed = (statement(), changes()).prop_map(|(text, changes)| {
        let bytes = changed(text.as_bytes().to_vec(), &changes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let piece = prop::sample::select(vec!["(", "[", "{", "frozen<", "{a: ", "cast(", "- ", "f(", "a.", "NOT "]);
    let deep = (statement(), 0.0..1.0f64, piece, 1..20_000usize).prop_map(|(text, at, piece, times)| {
        let nested = piece.repeat(times);
        let mut words: Vec<&str> = text.split(' ').collect();
        words.insert((words.len() as f64 * at) as usize, &nested);
        words.join(" ")
    });
    prop_oneof![8 => changed, 8 => mixed, 1 => deep]
}

#[test]
fn texts() {
    fuzz(statements(), |text| {
        for names_are_variables in [true, false] {
            if let Err(error) = cql::parse_with(&text, names_are_variables) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
        let _ = cql::parser::parse_type(&text);
        let _ = CqlType::parse(&text);
        let _ = CqlType::from_marshal_name(&text);
        Ok(())
    });
}

fn a_type() -> impl Strategy<Value = CqlType> {
    use CqlType::{
        Ascii, BigInt, Blob, Boolean, Date, Decimal, Double, Duration, Float, Inet, Int, SmallInt, Text, Time,
        TimeUuid, Timestamp, TinyInt, Uuid, VarInt,
    };
    let plain = prop::sample::select(vec![
        Ascii, BigInt, Blob, Boolean, Date, Decimal, Double, Duration, Float, Inet, Int, SmallInt, Text, Time,
        Timestamp, TimeUuid, TinyInt, Uuid, VarInt,
    ]);
    plain.prop_recursive(3, 8, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(CqlType::List),
            boxed.clone().prop_map(CqlType::Set),
            (boxed.clone(), boxed.clone()).prop_map(|(key, value)| CqlType::Map(key, value)),
            prop::collection::vec(inner, 1..4).prop_map(CqlType::Tuple),
            (boxed.clone(), 1..4u32).prop_map(|(element, dimension)| CqlType::Vector(element, dimension)),
            boxed.prop_map(CqlType::Frozen),
        ]
    })
}

/// Bytes that begin as collections and numbers do.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let len = prop::sample::select(vec![1usize, 2, 4, 8, 16]);
    let part = prop_oneof![
        (0..6u32).prop_map(|n| n.to_be_bytes().to_vec()),
        Just(vec![0xff; 4]),
        len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len)),
        "[a-zé]{0,6}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

#[test]
fn typed_values() {
    let texts = prop_oneof!["[-+0-9.eE:TZ ]{0,24}", "[a-z0-9\"\\[\\]{}:, -]{0,24}"];
    fuzz((a_type(), a_type(), value(), value(), texts), |(ty, other, a, b, text)| {
        let _ = ty.from_text(&text);
        if let Ok(Some(made)) = ty.from_json(&text) {
            prop_assert!(ty.validate(&made).is_ok(), "{ty} made {made:?} of {text}");
        }
        if ty.validate(&a).is_err() || ty.validate(&b).is_err() {
            return Ok(());
        }
        prop_assert_eq!(ty.compare(&a, &b), ty.compare(&b, &a).reverse());
        prop_assert!(ty.compare(&a, &a).is_eq());
        let _ = (ty.to_json(&a), ty.to_cql_literal(&a), ty.cast(&other, &a));
        if let Ok(canonical) = ty.canonical(&a) {
            prop_assert!(ty.compare(&a, &canonical).is_eq(), "{ty}: {a:?} is not {canonical:?}");
        }
        Ok(())
    });
}
