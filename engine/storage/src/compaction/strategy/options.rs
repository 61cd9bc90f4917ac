//! The options' text: names, defaults, limits. As Cassandra's `CompactionParams`, `AbstractCompactionStrategy` and the
//! strategies' own `validateOptions`, and Scylla's `incremental_compaction_strategy_options`; a refusal is the sentence
//! that the client gets.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{Strategy, Tombstones, Way, incremental, leveled, size_tiered, time_window};

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
/// `SizeTieredCompactionStrategyOptions.DEFAULT_MIN_SSTABLE_SIZE`.
const SMALL_BYTES: u64 = 50 << 20;
const MIB: u64 = 1 << 20;

/// The options one by one, so that at the end those nobody asked for are left.
struct Rest<'a> {
    options: &'a BTreeMap<String, String>,
    asked: Vec<&'static str>,
}

impl<'a> Rest<'a> {
    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.asked.push(name);
        self.options.get(name).map(String::as_str)
    }

    fn integer<T: FromStr>(&mut self, name: &'static str, default: T) -> Result<T, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("{text} is not a parsable int (base10) for {name}"))
    }

    fn float(&mut self, name: &'static str, default: f64) -> Result<f64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{text} is not a parsable float for {name}"))
    }

    fn switch(&mut self, name: &'static str, default: bool) -> Result<bool, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(format!("{name} value ({text}) must be \"true\" or \"false\"")),
        }
    }
}

fn thresholds(rest: &mut Rest<'_>) -> Result<(usize, usize), String> {
    let (min, max): (i64, i64) = (rest.integer("min_threshold", 4)?, rest.integer("max_threshold", 32)?);
    if min <= 0 || max <= 0 {
        return Err("Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction \
                    option 'enabled' to false instead."
            .into());
    }
    for (name, threshold) in [("min_threshold", min), ("max_threshold", max)] {
        if threshold < 2 {
            return Err(format!("{name} value ({threshold}) must be bigger or equal to 2"));
        }
    }
    if min > max {
        return Err(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ));
    }
    Ok((min as usize, max as usize))
}

fn check_share(name: &str, value: f64, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{name} value ({value}) must be between 0.0 and 1.0")) }
}

fn tiers(rest: &mut Rest<'_>, small_bytes: u64) -> Result<size_tiered::Options, String> {
    let (min_threshold, max_threshold) = thresholds(rest)?;
    let min_sstable_bytes: i64 = rest.integer("min_sstable_size", small_bytes as i64)?;
    if min_sstable_bytes < 0 {
        return Err(format!("min_sstable_size value ({min_sstable_bytes}) must be non negative"));
    }
    let (bucket_low, bucket_high) = (rest.float("bucket_low", 0.5)?, rest.float("bucket_high", 1.5)?);
    check_share("bucket_low", bucket_low, 0.0 < bucket_low && bucket_low <= 1.0)?;
    if bucket_high <= 1.0 {
        return Err(format!("bucket_high value ({bucket_high}) must be greater than 1.0"));
    }
    let min_sstable_bytes = min_sstable_bytes as u64;
    Ok(size_tiered::Options { min_threshold, max_threshold, bucket_low, bucket_high, min_sstable_bytes })
}

/// In MiB in the options; `small_bytes` against its default scales it.
fn sstable_bytes(rest: &mut Rest<'_>, default_mb: i64, small_bytes: u64) -> Result<u64, String> {
    let mb: i64 = rest.integer("sstable_size_in_mb", default_mb)?;
    if mb < 1 {
        return Err(format!("sstable_size_in_mb must be larger than 0, but was {mb}"));
    }
    let scaled = u128::from(mb as u64) * u128::from(MIB) * u128::from(small_bytes) / u128::from(SMALL_BYTES);
    Ok(u64::try_from(scaled).unwrap_or(u64::MAX).max(1))
}

fn leveled(rest: &mut Rest<'_>, small_bytes: u64) -> Result<leveled::Options, String> {
    let fanout: i64 = rest.integer("fanout_size", 10)?;
    if fanout < 1 {
        return Err(format!("fanout_size must be larger than 0, but was {fanout}"));
    }
    Ok(leveled::Options {
        sstable_bytes: sstable_bytes(rest, 160, small_bytes)?,
        fanout: fanout as u64,
        single_sstable_uplevel: rest.switch("single_sstable_uplevel", true)?,
        tiers: tiers(rest, small_bytes)?,
    })
}

fn time_window(rest: &mut Rest<'_>, small_bytes: u64) -> Result<time_window::Options, String> {
    let not_valid = |text: &str, name: &str| Err(format!("{text} is not valid for {name}"));
    let timestamps_per_s = match rest.text("timestamp_resolution") {
        Some("SECONDS") => 1,
        Some("MILLISECONDS") => 1000,
        None | Some("MICROSECONDS") => 1_000_000,
        Some("NANOSECONDS") => 1_000_000_000,
        Some(text) => return not_valid(text, "timestamp_resolution"),
    };
    let unit_s = match rest.text("compaction_window_unit") {
        Some("MINUTES") => 60,
        Some("HOURS") => 3600,
        None | Some("DAYS") => 86_400,
        Some(text) => return not_valid(text, "compaction_window_unit"),
    };
    let size: i32 = rest.integer("compaction_window_size", 1)?;
    if size < 1 {
        return Err(format!("{size} must be greater than 1 for compaction_window_size"));
    }
    let check_s: i64 = rest.integer("expired_sstable_check_frequency_seconds", 600)?;
    if check_s < 0 {
        return Err(format!("expired_sstable_check_frequency_seconds must not be negative, but was {check_s}"));
    }
    // Scylla's, about its way to read.
    rest.switch("enable_optimized_twcs_queries", true)?;
    Ok(time_window::Options {
        window_s: unit_s * size as u64,
        timestamps_per_s,
        unsafe_aggressive_expiration: rest.switch("unsafe_aggressive_sstable_expiration", false)?,
        tiers: tiers(rest, small_bytes)?,
    })
}

fn incremental(rest: &mut Rest<'_>, small_bytes: u64) -> Result<incremental::Options, String> {
    let tiers = tiers(rest, small_bytes)?;
    let goal = match rest.float("space_amplification_goal", f64::NAN)? {
        goal if goal.is_nan() => None,
        goal if goal > 1.0 && goal <= 2.0 => Some(goal),
        goal => {
            return Err(format!(
                "space_amplification_goal value ({goal}) must be greater than 1.0 and less than or equal to 2.0"
            ));
        }
    };
    Ok(incremental::Options {
        fragment_bytes: sstable_bytes(rest, 1000, small_bytes)?,
        space_amplification_goal: goal,
        tiers,
    })
}

/// Of all strategies; `wanted`: by the strategy, when no option says.
fn tombstones(rest: &mut Rest<'_>, wanted: bool) -> Result<Option<Tombstones>, String> {
    let named = ["tombstone_threshold", "tombstone_compaction_interval", "unchecked_tombstone_compaction"];
    let wanted = wanted || named.iter().any(|name| rest.options.contains_key(*name));
    let threshold = rest.float("tombstone_threshold", 0.2)?;
    check_share("tombstone_threshold", threshold, 0.0 < threshold && threshold <= 1.0)?;
    let interval_s: i64 = rest.integer("tombstone_compaction_interval", 86_400)?;
    if interval_s < 0 {
        return Err(format!("tombstone_compaction_interval value ({interval_s}000ms) must be positive"));
    }
    let unchecked = rest.switch("unchecked_tombstone_compaction", false)?;
    rest.switch("only_purge_repaired_tombstones", false)?;
    let interval_s = u32::try_from(interval_s).unwrap_or(u32::MAX);
    Ok(wanted.then_some(Tombstones { threshold, interval_s, unchecked }))
}

impl Strategy {
    /// Reads a table's options. Sizes with a default of their own are scaled by `small_bytes`, which stands in for the
    /// default `min_sstable_size` of 50 MiB. The error is a sentence for who wrote them.
    pub fn parse(options: &BTreeMap<String, String>, small_bytes: u64) -> Result<Self, String> {
        let mut rest = Rest { options, asked: Vec::new() };
        let class = rest.text("class").ok_or("Missing sub-option 'class' for the 'compaction' option.")?;
        let short = class.strip_prefix(PACKAGE).unwrap_or(class);
        // Scylla's, for tests: nothing is compacted.
        let is_null = short == "NullCompactionStrategy";
        let enabled = rest.switch("enabled", true)? && !is_null;
        rest.switch("log_all", false)?;
        match rest.text("provide_overlapping_tombstones").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none" | "row" | "cell") => {}
            Some(text) => {
                return Err(format!(
                    "Invalid value {text} for 'provide_overlapping_tombstones' compaction sub-option - must be one of \
                     the following [NONE, ROW, CELL]."
                ));
            }
        }
        let kind = match short {
            "SizeTieredCompactionStrategy" => {
                // Of old; what it asks for is not done.
                let cold = rest.float("cold_reads_to_omit", 0.05)?;
                check_share("cold_reads_to_omit", cold, (0.0..=1.0).contains(&cold))?;
                Way::SizeTiered(tiers(&mut rest, small_bytes)?)
            }
            _ if is_null => Way::SizeTiered(tiers(&mut rest, small_bytes)?),
            "LeveledCompactionStrategy" => Way::Leveled(leveled(&mut rest, small_bytes)?),
            "TimeWindowCompactionStrategy" => Way::TimeWindow(time_window(&mut rest, small_bytes)?),
            "IncrementalCompactionStrategy" => Way::Incremental(incremental(&mut rest, small_bytes)?),
            other => {
                let package = if other.contains('.') { "" } else { PACKAGE };
                return Err(format!("Unable to find compaction strategy class '{package}{other}'"));
            }
        };
        // Time windows have their own way with tombstones, unless they are asked for.
        let tombstones = tombstones(&mut rest, !matches!(kind, Way::TimeWindow(_)))?;
        let unknown: Vec<&str> = options.keys().map(String::as_str).filter(|name| !rest.asked.contains(name)).collect();
        if !unknown.is_empty() {
            return Err(format!("Properties specified [{}] are not understood by {short}", unknown.join(", ")));
        }
        Ok(Self { kind, enabled, tombstones })
    }

    /// Of a definition whose options may be older than the rules: what cannot be read is size-tiered by default.
    pub fn of(options: &BTreeMap<String, String>, small_bytes: u64) -> Self {
        let default = || BTreeMap::from([("class".to_string(), "SizeTieredCompactionStrategy".to_string())]);
        Self::parse(options, small_bytes)
            .or_else(|_| Self::parse(&default(), small_bytes))
            .expect("the default options are in order")
    }
}

/// Whether a table may have these compaction options; if not, the sentence for who wrote them.
pub fn validate(options: &BTreeMap<String, String>) -> Result<(), String> {
    Strategy::parse(options, SMALL_BYTES).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn classes_with_and_without_package() {
        for class in ["SizeTiered", "Leveled", "TimeWindow", "Incremental"] {
            let short = Strategy::parse(&options(&format!("class={class}CompactionStrategy")), SMALL_BYTES).unwrap();
            let long = options(&format!("class={PACKAGE}{class}CompactionStrategy"));
            assert_eq!(Strategy::parse(&long, SMALL_BYTES), Ok(short));
        }
    }

    #[test]
    fn numbers() {
        let read = |text: &str| Strategy::parse(&options(text), SMALL_BYTES).unwrap();
        let tiers = size_tiered::Options {
            min_threshold: 8,
            max_threshold: 32,
            bucket_low: 0.5,
            bucket_high: 2.5,
            min_sstable_bytes: 50 << 20,
        };
        let strategy = read("class=SizeTieredCompactionStrategy min_threshold=8 bucket_high=2.5 enabled=false");
        assert_eq!((strategy.kind, strategy.enabled), (Way::SizeTiered(tiers), false));
        let Way::Leveled(leveled) = read("class=LeveledCompactionStrategy fanout_size=8").kind else { panic!() };
        assert_eq!((leveled.sstable_bytes, leveled.fanout), (160 << 20, 8));
        let Way::Leveled(scaled) =
            Strategy::parse(&options("class=LeveledCompactionStrategy sstable_size_in_mb=100"), 50 << 10).unwrap().kind
        else {
            panic!()
        };
        assert_eq!(scaled.sstable_bytes, 100 << 10);
        let window = read(
            "class=TimeWindowCompactionStrategy compaction_window_unit=HOURS compaction_window_size=6 \
             timestamp_resolution=MILLISECONDS",
        );
        assert_eq!(window.tombstones, None);
        let Way::TimeWindow(window) = window.kind else { panic!() };
        assert_eq!((window.window_s, window.timestamps_per_s), (21_600, 1000));
        assert_eq!((window.window(-1), window.window(21_600_000)), (-21_600, 21_600));
        let runs = read("class=IncrementalCompactionStrategy space_amplification_goal=1.25");
        let Way::Incremental(runs) = runs.kind else { panic!() };
        assert_eq!((runs.fragment_bytes, runs.space_amplification_goal), (1000 << 20, Some(1.25)));
    }

    #[test]
    fn refusals() {
        let cases = [
            "",
            "class=Wat",
            "class=com.example.Wat",
            "class=SizeTieredCompactionStrategy wat=1 foo=2",
            "class=SizeTieredCompactionStrategy min_threshold=1",
            "class=SizeTieredCompactionStrategy min_threshold=0",
            "class=SizeTieredCompactionStrategy min_threshold=x",
            "class=SizeTieredCompactionStrategy min_threshold=9 max_threshold=8",
            "class=SizeTieredCompactionStrategy bucket_low=1.6",
            "class=SizeTieredCompactionStrategy bucket_high=0.7",
            "class=SizeTieredCompactionStrategy cold_reads_to_omit=3.5",
            "class=SizeTieredCompactionStrategy bucket_low=NaN",
            "class=SizeTieredCompactionStrategy min_sstable_size=-1",
            "class=SizeTieredCompactionStrategy tombstone_threshold=0",
            "class=SizeTieredCompactionStrategy tombstone_threshold=5.5",
            "class=SizeTieredCompactionStrategy tombstone_compaction_interval=-7",
            "class=SizeTieredCompactionStrategy enabled=perhaps",
            "class=SizeTieredCompactionStrategy sstable_size_in_mb=10",
            "class=LeveledCompactionStrategy sstable_size_in_mb=0",
            "class=LeveledCompactionStrategy fanout_size=0",
            "class=TimeWindowCompactionStrategy compaction_window_unit=WEEKS",
            "class=TimeWindowCompactionStrategy compaction_window_size=0",
            "class=TimeWindowCompactionStrategy timestamp_resolution=hours",
            "class=TimeWindowCompactionStrategy expired_sstable_check_frequency_seconds=-1",
            "class=IncrementalCompactionStrategy space_amplification_goal=2.5",
            "class=IncrementalCompactionStrategy space_amplification_goal=1",
        ];
        let said: Vec<String> =
            cases.iter().map(|case| format!("{case}\n    {}", validate(&options(case)).unwrap_err())).collect();
        insta::with_settings!({ snapshot_path => "../testdata", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!("options_refused", said.join("\n"));
        });
    }
}
