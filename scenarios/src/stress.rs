//! cassandra-stress command lines, as reports publish them, read into workloads.
//!
//! What is understood is listed in [`parse`]; what is not is refused with its place in the line. Options that only
//! concern the tool itself (`-log`, `-graph`, `-errors`, `-node`, ..) are accepted and have no effect, because a
//! published line may carry them. Pure: text in, workload out.
//!
//! Option names and forms after Apache Cassandra's `tools/stress` (`Settings*`, `OptionDistribution`).

use std::ops::Range;

use hwprofiles::nearest;
use hwprofiles::quantity::{Quantity, Rate, Time};

use crate::generate::Keys;
use crate::workload::{Arrival, CONNECTIONS_PER_HOST, Consistency, Mix, Row, Workload};

/// A mistake in a command line; `at` is the byte range of the offending part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StressError {
    pub message: String,
    pub at: Range<usize>,
    pub help: Option<String>,
}

/// What a line says: the workload, and what it asks of the keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub workload: Workload,
    /// `-schema "replication(factor=N)"`.
    pub replication_factor: Option<u32>,
    /// `no-warmup` was given.
    pub no_warmup: bool,
}

/// A part of the line and where it stands.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    begin: usize,
}

impl<'a> Word<'a> {
    fn error(&self, message: impl Into<String>, help: Option<String>) -> StressError {
        StressError { message: message.into(), at: self.begin..self.begin + self.text.len(), help }
    }

    /// The text behind `name=`, or within `name(..)`.
    fn value_of(&self, name: &str) -> Option<Word<'a>> {
        let rest = self.text.strip_prefix(name)?;
        let (value, skip) = match rest.strip_prefix('=') {
            Some(value) => (value, name.len() + 1),
            None => (rest.strip_prefix('(')?.strip_suffix(')')?, name.len() + 1),
        };
        Some(Word { text: value, begin: self.begin + skip })
    }

    fn split(&self, separator: &str) -> Vec<Word<'a>> {
        let mut begin = self.begin;
        self.text
            .split(separator)
            .map(|text| {
                let word = Word { text, begin };
                begin += text.len() + separator.len();
                word
            })
            .collect()
    }

    /// A whole number, with K, M or B for thousands, millions and milliards as the tool reads them.
    fn number(&self) -> Result<u64, StressError> {
        let text = self.text.replace('_', "");
        let (digits, unit) = match text.chars().last() {
            Some('k' | 'K') => (&text[..text.len() - 1], 1_000),
            Some('m' | 'M') => (&text[..text.len() - 1], 1_000_000),
            Some('b' | 'B') => (&text[..text.len() - 1], 1_000_000_000),
            _ => (text.as_str(), 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
        number.ok_or_else(|| self.error(format!("`{}` is not a whole number", self.text), None))
    }

    fn count(&self) -> Result<u32, StressError> {
        let number = self.number()?;
        match u32::try_from(number).ok().filter(|n| *n > 0) {
            Some(n) => Ok(n),
            None => Err(self.error(format!("`{}` is out of range", self.text), Some("use 1 or more".into()))),
        }
    }
}

/// Splits at blanks outside of brackets; quotes group and disappear at a word's ends.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut begin = None;
    let (mut depth, mut quote) = (0usize, None);
    for (i, c) in line.char_indices().chain([(line.len(), ' ')]) {
        let blank = c.is_whitespace() && quote.is_none() && (depth == 0 || i == line.len());
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (begin, blank) {
            (None, false) => begin = Some(i),
            (Some(from), true) => {
                let text = &line[from..i];
                let inner = text.trim_start_matches(['"', '\'']);
                words.push(Word { text: inner.trim_end_matches(['"', '\'']), begin: from + text.len() - inner.len() });
                begin = None;
            }
            _ => {}
        }
    }
    words
}

/// Options of the tool that change nothing here.
const NO_EFFECT: [&str; 9] =
    ["-node", "-log", "-errors", "-graph", "-port", "-sendto", "-transport", "-tokenrange", "-jmx"];
const OPTIONS: [&str; 6] = ["-pop", "-rate", "-schema", "-mode", "-col", "-insert"];

/// Reads `write|read|mixed ratio(write=1,read=1) [n=] [duration=] [cl=] [no-warmup]` and the options
/// `-pop seq=A..B|dist=DIST`, `-rate threads= [limit=|fixed=|throttle=]`, `-schema replication(factor=)`,
/// `-mode native cql3 [connectionsPerHost=]`, `-col n= size=`.
pub fn parse(line: &str) -> Result<Command, StressError> {
    let mut words = words(line);
    // Lines are often published with the tool's name in front.
    if words.first().is_some_and(|w| w.text.ends_with("cassandra-stress")) {
        words.remove(0);
    }
    let whole = Word { text: line, begin: 0 };
    let (first, rest) = words.split_first().ok_or_else(|| {
        whole.error("the command line is empty", Some("begin with `write`, `read` or `mixed`".into()))
    })?;
    let split = rest.iter().position(|w| w.text.starts_with('-')).unwrap_or(rest.len());
    let (own, options) = rest.split_at(split);
    let mut reading = Reading::new(first)?;
    own.iter().try_for_each(|word| reading.command_word(word))?;
    let mut at = 0;
    while at < options.len() {
        let end = options[at + 1..].iter().position(|w| w.text.starts_with('-')).map_or(options.len(), |i| at + 1 + i);
        reading.option(&options[at], &options[at + 1..end])?;
        at = end;
    }
    reading.finish(first)
}

struct Reading {
    mix: Mix,
    operations: Option<u64>,
    duration_ns: Option<u64>,
    consistency: Consistency,
    no_warmup: bool,
    keys: Option<Keys>,
    threads: Option<u32>,
    limit: Option<Quantity<Rate>>,
    fixed: Option<Quantity<Rate>>,
    replication_factor: Option<u32>,
    connections_per_host: u32,
    row: Row,
}

impl Reading {
    fn new(command: &Word) -> Result<Self, StressError> {
        let known = ["write", "read", "mixed"];
        let mix = match command.text {
            "write" => Mix::WRITE,
            "read" => Mix::READ,
            "mixed" => Mix { write: 1, read: 1, ..Mix::NOTHING },
            "user" | "counter_write" | "counter_read" | "help" | "print" | "version" | "legacy" => {
                return Err(command.error(
                    format!("`{}` is not simulated", command.text),
                    Some(format!("known: {}", known.join(", "))),
                ));
            }
            other => return Err(command.error(format!("unknown command `{other}`"), suggest(other, known))),
        };
        Ok(Self {
            mix,
            operations: None,
            duration_ns: None,
            // The tool's own defaults: LOCAL_ONE, 200 clients at the end of its search, 8 connections a host.
            consistency: Consistency::LocalOne,
            no_warmup: false,
            keys: None,
            threads: None,
            limit: None,
            fixed: None,
            replication_factor: None,
            connections_per_host: CONNECTIONS_PER_HOST,
            row: Row::STRESS_DEFAULT,
        })
    }

    fn command_word(&mut self, word: &Word) -> Result<(), StressError> {
        if let Some(n) = word.value_of("n") {
            // `n>=` (relative error search) never appears in the published lines.
            self.operations = Some(n.number()?);
        } else if let Some(duration) = word.value_of("duration") {
            let time = Quantity::<Time>::parse(duration.text);
            self.duration_ns = Some(time.map_err(|e| duration.error(e.to_string(), None))?.u64());
        } else if let Some(level) = word.value_of("cl") {
            let names = Consistency::ALL.map(|(name, ..)| name);
            self.consistency = Consistency::parse(level.text).ok_or_else(|| {
                level.error(format!("unknown consistency level `{}`", level.text), suggest(level.text, names))
            })?;
        } else if let Some(ratio) = word.value_of("ratio") {
            let mut mix = Mix::NOTHING;
            for part in ratio.split(",") {
                match (part.value_of("write"), part.value_of("read")) {
                    (Some(n), _) => mix.write = n.count()?,
                    (_, Some(n)) => mix.read = n.count()?,
                    _ => {
                        return Err(part.error(
                            format!("unknown part `{}` of a ratio", part.text),
                            Some("write `ratio(write=1,read=1)`".into()),
                        ));
                    }
                }
            }
            self.mix = mix;
        } else if word.text == "no-warmup" {
            self.no_warmup = true;
        } else {
            let known = ["n=", "duration=", "cl=", "no-warmup", "ratio("];
            let message = format!("`{}` is not understood here", word.text);
            return Err(word.error(message, suggest(word.text.split(['=', '(']).next().unwrap_or(word.text), known)));
        }
        Ok(())
    }

    fn option(&mut self, name: &Word, values: &[Word]) -> Result<(), StressError> {
        match name.text {
            "-pop" => values.iter().try_for_each(|word| self.population(word)),
            "-rate" => values.iter().try_for_each(|word| self.rate(word)),
            "-schema" => values.iter().try_for_each(|word| self.schema(word)),
            "-mode" => values.iter().try_for_each(|word| self.mode(word)),
            "-col" => values.iter().try_for_each(|word| self.columns(word)),
            "-insert" => Err(name.error("`-insert` belongs to user profiles, which are not simulated", None)),
            known if NO_EFFECT.contains(&known) => Ok(()),
            unknown => {
                let help = suggest(unknown, OPTIONS.into_iter().chain(NO_EFFECT));
                Err(name.error(format!("unknown option `{unknown}`"), help))
            }
        }
    }

    fn population(&mut self, word: &Word) -> Result<(), StressError> {
        if let Some(range) = word.value_of("seq") {
            let (from, to) = bounds(&range)?;
            self.keys = Some(Keys::Sequence { from, to });
            return Ok(());
        }
        if let Some(distribution) = word.value_of("dist") {
            self.keys = Some(parse_distribution(&distribution)?);
            return Ok(());
        }
        if matches!(word.text, "no-wrap") || word.text.starts_with("read-lookback") || word.text.starts_with("contents")
        {
            return Err(word.error(format!("`{}` is not simulated", word.text), None));
        }
        let help = suggest(word.text.split('=').next().unwrap_or(word.text), ["seq", "dist"]);
        Err(word.error(
            format!("`{}` is not a population", word.text),
            help.or(Some("write `seq=1..N` or `dist=..`".into())),
        ))
    }

    fn rate(&mut self, word: &Word) -> Result<(), StressError> {
        if let Some(threads) = word.value_of("threads") {
            self.threads = Some(threads.count()?);
            return Ok(());
        }
        for (name, fixed) in [("limit", false), ("throttle", false), ("fixed", true)] {
            let Some(value) = word.value_of(name) else { continue };
            let rate = Quantity::<Rate>::parse(value.text).map_err(|e| value.error(e.to_string(), None))?;
            if rate.f64() <= 0.0 {
                return Err(value.error("a rate must be above 0", None));
            }
            if fixed {
                self.fixed = Some(rate);
            } else {
                self.limit = Some(rate);
            }
            return Ok(());
        }
        let message = format!("`{}` is not understood in -rate", word.text);
        let stem = word.text.split(['=', '<', '>']).next().unwrap_or(word.text);
        if word.text.starts_with("threads>=") || word.text.starts_with("threads<=") || word.text == "auto" {
            return Err(
                word.error(message, Some("the search for a thread count is not simulated; write `threads=N`".into()))
            );
        }
        Err(word.error(message, suggest(stem, ["threads", "limit", "fixed"])))
    }

    fn schema(&mut self, word: &Word) -> Result<(), StressError> {
        if let Some(replication) = word.value_of("replication") {
            for part in replication.split(",") {
                if let Some(factor) = part.value_of("factor").or(part.value_of("replication_factor")) {
                    self.replication_factor = Some(factor.count()?);
                } else if part.value_of("strategy").is_none_or(|s| !s.text.ends_with("SimpleStrategy")) {
                    return Err(part.error(
                        format!("`{}` is not understood in replication(..)", part.text),
                        Some("write `replication(factor=3)`".into()),
                    ));
                }
            }
            return Ok(());
        }
        if word.value_of("keyspace").is_some()
            || word.value_of("compaction").is_some()
            || word.value_of("compression").is_some()
        {
            return Err(word.error(format!("`{}` is not simulated", word.text), None));
        }
        Err(word.error(
            format!("`{}` is not understood in -schema", word.text),
            Some("write `replication(factor=3)`".into()),
        ))
    }

    fn mode(&mut self, word: &Word) -> Result<(), StressError> {
        if let Some(connections) = word.value_of("connectionsPerHost") {
            self.connections_per_host = connections.count()?;
            return Ok(());
        }
        let harmless = ["protocolVersion", "maxPending", "user", "password", "auth-provider", "compression"];
        match word.text {
            "native" | "cql3" | "prepared" => Ok(()),
            "thrift" | "smart" | "unprepared" | "simplenative" => {
                Err(word
                    .error(format!("mode `{}` is not simulated", word.text), Some("write `-mode native cql3`".into())))
            }
            text if harmless.iter().any(|h| text.starts_with(h)) => Ok(()),
            text => Err(word.error(
                format!("`{text}` is not understood in -mode"),
                suggest(text.split('=').next().unwrap_or(text), ["native", "cql3", "prepared", "connectionsPerHost"]),
            )),
        }
    }

    fn columns(&mut self, word: &Word) -> Result<(), StressError> {
        let fixed = |value: Word| match value.value_of("FIXED").or(value.value_of("fixed")) {
            Some(inner) => inner.count(),
            None if value.text.contains('(') => {
                Err(value.error("only fixed sizes are simulated", Some("write `FIXED(n)`".into())))
            }
            None => value.count(),
        };
        if let Some(size) = word.value_of("size") {
            self.row.column_bytes = fixed(size)?;
        } else if let Some(n) = word.value_of("n") {
            self.row.columns = fixed(n)?;
        } else {
            return Err(
                word.error(format!("`{}` is not understood in -col", word.text), suggest(word.text, ["size", "n"]))
            );
        }
        Ok(())
    }

    fn finish(self, command: &Word) -> Result<Command, StressError> {
        if self.operations.is_none() && self.duration_ns.is_none() {
            return Err(command.error("the run has no end", Some("add `n=` or `duration=`".into())));
        }
        if let (Some(_), Some(_)) = (self.limit, self.fixed) {
            return Err(command.error("`limit=` and `fixed=` exclude each other", None));
        }
        let threads = self.threads.ok_or_else(|| {
            command.error(
                "`-rate threads=` is missing",
                Some("the tool's own search for a thread count is not simulated".into()),
            )
        })?;
        let arrival = match (self.limit, self.fixed) {
            (Some(rate), _) => Arrival::Throttled { threads, rate },
            (_, Some(rate)) => Arrival::Open { threads, rate },
            _ => Arrival::Closed { threads },
        };
        // Without -pop: writes go through 1..n in order, reads are normal over it (SettingsPopulation).
        let count = self.operations.unwrap_or(1_000_000);
        let keys = self.keys.unwrap_or(if self.mix.read == 0 {
            Keys::Sequence { from: 1, to: count }
        } else {
            gaussian(1, count, None, None)
        });
        let workload = Workload {
            mix: self.mix,
            keys,
            arrival,
            consistency: self.consistency,
            operations: self.operations,
            duration_ns: self.duration_ns,
            row: self.row,
            connections_per_host: self.connections_per_host,
        };
        Ok(Command { workload, replication_factor: self.replication_factor, no_warmup: self.no_warmup })
    }
}

fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<String> {
    Some(match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    })
}

fn bounds(range: &Word) -> Result<(u64, u64), StressError> {
    let parts = range.split("..");
    let [from, to] = parts.as_slice() else {
        return Err(range.error(format!("`{}` is not a range", range.text), Some("write `1..1000000`".into())));
    };
    let (from, to) = (from.number()?, to.number()?);
    if to < from {
        return Err(range.error(format!("the range {from}..{to} is empty"), None));
    }
    Ok((from, to))
}

/// Without a mean and deviation the tool centres the range and puts its ends three deviations away.
fn gaussian(from: u64, to: u64, mean: Option<f64>, stdev: Option<f64>) -> Keys {
    let mean = mean.unwrap_or((from + to) as f64 / 2.0);
    Keys::Gaussian { from, to, mean, stdev: stdev.unwrap_or((to - from) as f64 / 2.0 / 3.0) }
}

fn parse_distribution(word: &Word) -> Result<Keys, StressError> {
    let text = word.text.trim_start_matches('~');
    let open = text.find('(').filter(|_| text.ends_with(')')).ok_or_else(|| {
        word.error(
            format!("`{}` is not a distribution", word.text),
            Some("write `uniform(1..1000000)` or `gaussian(1..1000000,500000,1000)`".into()),
        )
    })?;
    let begin = word.begin + word.text.len() - text.len();
    let name = Word { text: &text[..open], begin };
    let arguments = Word { text: &text[open + 1..text.len() - 1], begin: begin + open + 1 }.split(",");
    let (from, to) = bounds(&arguments[0])?;
    let many = |most: usize| match arguments.get(most) {
        Some(extra) => Err(extra.error(format!("`{}` is one argument too many", extra.text), None)),
        None => Ok(()),
    };
    match name.text.to_ascii_lowercase().as_str() {
        "uniform" => many(1).map(|()| Keys::Uniform { from, to }),
        "gaussian" | "gauss" | "normal" | "norm" => {
            many(3)?;
            let argument = |i: usize| arguments.get(i).map(Word::number).transpose();
            let (second, third) = (argument(1)?, argument(2)?);
            Ok(match (second, third) {
                (Some(mean), Some(stdev)) => gaussian(from, to, Some(mean as f64), Some(stdev as f64)),
                // One extra argument is the number of deviations between mean and ends.
                (Some(stretch), None) => {
                    gaussian(from, to, None, Some((to - from) as f64 / 2.0 / stretch.max(1) as f64))
                }
                _ => gaussian(from, to, None, None),
            })
        }
        "exp" | "exponential" => many(1).map(|()| Keys::Exponential { from, to }),
        other => {
            Err(name.error(format!("unknown distribution `{other}`"), suggest(other, ["uniform", "gaussian", "exp"])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Command {
        parse(line).unwrap_or_else(|e| panic!("{line}: {e} at {:?}", e.at))
    }

    #[test]
    fn the_published_lines_are_read() {
        let populate = read(
            "cassandra-stress write n=270258064 cl=QUORUM -schema \"replication(factor=3)\" -mode native cql3 -pop seq=1..270258064 -rate threads=800",
        );
        assert_eq!(populate.replication_factor, Some(3));
        assert_eq!(populate.workload.keys, Keys::Sequence { from: 1, to: 270_258_064 });
        assert_eq!(populate.workload.arrival, Arrival::Closed { threads: 800 });
        assert_eq!((populate.workload.operations, populate.workload.mix), (Some(270_258_064), Mix::WRITE));

        let small =
            read("read duration=20m cl=QUORUM -pop dist=gaussian(1..810774192,405387096,10000) -rate threads=400");
        assert_eq!(
            small.workload.keys,
            Keys::Gaussian { from: 1, to: 810_774_192, mean: 405_387_096.0, stdev: 10_000.0 }
        );
        assert_eq!(small.workload.duration_ns, Some(1_200_000_000_000));

        let limited = read("write duration=30m cl=QUORUM -pop seq=1..810774192 -rate threads=800 limit=10000/s");
        assert_eq!(limited.workload.arrival, Arrival::Throttled { threads: 800, rate: Quantity::new(10_000.0) });

        let mixed = read(
            "mixed ratio(write=1,read=1) duration=15m cl=QUORUM -pop dist=gauss(1..10000000,5000000,500000) -rate threads=700",
        );
        assert_eq!(mixed.workload.mix, Mix { write: 1, read: 1, ..Mix::NOTHING });

        let during = read("read duration=60m no-warmup cl=QUORUM -pop dist=uniform(1..810774192) -rate threads=10");
        assert!(during.no_warmup);
    }

    #[test]
    fn forms_of_options() {
        let open = read(
            "write n=1M -rate threads=10 fixed=80k/s -mode native cql3 connectionsPerHost=4 -col size=FIXED(100) n=FIXED(10) -log file=x -node a,b",
        );
        assert_eq!(open.workload.arrival, Arrival::Open { threads: 10, rate: Quantity::new(80_000.0) });
        assert_eq!(open.workload.connections_per_host, 4);
        assert_eq!(open.workload.row, Row { columns: 10, column_bytes: 100, rows: 1 });
        assert_eq!(open.workload.keys, Keys::Sequence { from: 1, to: 1_000_000 });
    }

    #[test]
    fn mistakes_have_a_place_and_a_next_step() {
        let check = |line: &str, marked: &str, message: &str, help: &str| {
            let error = parse(line).unwrap_err();
            assert_eq!(&line[error.at.clone()], marked, "{line}");
            assert_eq!(error.message, message);
            assert_eq!(error.help.as_deref().unwrap_or(""), help);
        };
        check("wirte n=1", "wirte", "unknown command `wirte`", "did you mean `write`?");
        check("write n=1x -rate threads=1", "1x", "`1x` is not a whole number", "");
        check(
            "write n=1 cl=QUROUM -rate threads=1",
            "QUROUM",
            "unknown consistency level `QUROUM`",
            "did you mean `QUORUM`?",
        );
        check(
            "read n=1 -pop dist=unifrom(1..5) -rate threads=1",
            "unifrom",
            "unknown distribution `unifrom`",
            "did you mean `uniform`?",
        );
        check("read n=1 -pop seq=9..5 -rate threads=1", "9..5", "the range 9..5 is empty", "");
        check(
            "read n=1 -rate threds=1",
            "threds=1",
            "`threds=1` is not understood in -rate",
            "did you mean `threads`?",
        );
        check("read n=1 -rate threads=0", "0", "`0` is out of range", "use 1 or more");
        check("read -rate threads=1", "read", "the run has no end", "add `n=` or `duration=`");
        check(
            "write n=1 -rate threads=8 limit=10000",
            "10000",
            "`10000` has no unit; a rate is written like `80k/s`",
            "",
        );
        check("write n=1 -rat threads=8", "-rat", "unknown option `-rat`", "did you mean `-rate`?");
    }
}
