//! What both sides are told, and the keys and values that both sides write.

use std::time::Instant;

pub const KEY_BYTES: usize = 16;

#[derive(Clone, Debug)]
pub struct Options {
    pub folder: String,
    pub cpu: usize,
    pub row_bytes: usize,
    /// Distinct keys.
    pub keys: u64,
    /// At least so many; no fewer than keys, so that every read finds something.
    pub writes: u64,
    pub memtables_mib: u64,
    /// Of the cold reads; a data set of `keys` rows is to be eight times it.
    pub cache_mib: u64,
    pub hot_keys: u64,
    pub hot_cache_mib: u64,
    pub depth: usize,
    pub read_seconds: u64,
    pub rounds: usize,
    /// Of paced writes.
    pub rate: u64,
    pub seconds: u64,
    /// LZ4 over blocks of 4 KiB, and values of which half compresses away; else neither.
    pub lz4: bool,
}

impl Options {
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            folder: String::new(),
            cpu: 1,
            row_bytes: 300,
            keys: 1_800_000,
            writes: 2_000_000,
            memtables_mib: 128,
            cache_mib: 64,
            hot_keys: 200_000,
            hot_cache_mib: 512,
            depth: 64,
            read_seconds: 5,
            rounds: 3,
            rate: 50_000,
            seconds: 60,
            lz4: false,
        };
        for argument in arguments {
            let Some((name, value)) = argument.split_once('=') else {
                options.folder = argument;
                continue;
            };
            let number: u64 = value.parse().map_err(|_| format!("`{argument}`: not a number"))?;
            match name {
                "cpu" => options.cpu = number as usize,
                "row_bytes" => options.row_bytes = (number as usize).max(KEY_BYTES + 1),
                "keys" => options.keys = number,
                "writes" => options.writes = number,
                "memtables_mib" => options.memtables_mib = number,
                "cache_mib" => options.cache_mib = number,
                "hot_keys" => options.hot_keys = number,
                "hot_cache_mib" => options.hot_cache_mib = number,
                "depth" => options.depth = number as usize,
                "read_seconds" => options.read_seconds = number,
                "rounds" => options.rounds = number as usize,
                "rate" => options.rate = number,
                "seconds" => options.seconds = number,
                "lz4" => options.lz4 = number != 0,
                _ => return Err(format!("`{name}` is not known")),
            }
        }
        options.writes = options.writes.max(options.keys);
        if options.folder.is_empty() { Err("name a folder on the disk to measure".into()) } else { Ok(options) }
    }
}

/// Of the key that write number `write` is to: each once, in no order of their keys, then any.
pub fn number(write: u64, keys: u64, random: &mut Random) -> u64 {
    if write < keys { write } else { random.next() % keys }
}

/// Scattered, and the same for the same number.
pub fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Fills `value` with bytes that do not compress: all of it, or the first half.
pub fn fill_value(value: &mut [u8], half: bool, random: &mut Random) {
    let len = if half { value.len() / 2 } else { value.len() };
    for chunk in value[..len].chunks_mut(8) {
        let bytes = random.next().to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled".
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Wall time, CPU time of all threads, and bytes read from the device, since some moment.
pub struct Meter {
    began: Instant,
    cpu_s: f64,
    read_bytes: u64,
}

impl Meter {
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu_s: cpu_s(), read_bytes: device_read_bytes() }
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// `PHASE-rate`, `PHASE-cpu-us` and, where the device was read, `PHASE-device-reads` (4 KiB each, a second).
    pub fn report(&self, phase: &str, operations: u64) {
        let (seconds, cpu) = (self.seconds(), cpu_s() - self.cpu_s);
        println!("{phase}-rate {:.0}", operations as f64 / seconds);
        println!("{phase}-cpu-us {:.3}", cpu * 1e6 / operations as f64);
        let blocks = (device_read_bytes() - self.read_bytes) / 4096;
        if phase == "cold" {
            println!("{phase}-device-reads {:.0}", blocks as f64 / seconds);
            println!("{phase}-reads-each {:.2}", blocks as f64 / operations as f64);
        }
    }
}

/// User and system time of all threads (proc(5): fields 14 and 15 of `stat`, in hundredths).
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn device_read_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
