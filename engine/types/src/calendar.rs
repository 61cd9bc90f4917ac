//! Dates, times of day and timestamps as text, in the proleptic Gregorian calendar and UTC.
//!
//! A `date` is unsigned days with 2^31 at 1970-01-01, a `time` nanoseconds since midnight, a `timestamp` signed
//! milliseconds since 1970-01-01. A timestamp without a zone is taken as UTC.

use crate::error::{Error, marshal};

const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_DAY: i64 = 86_400_000_000_000;
/// Day 0 of 1970 in a `date`.
pub const DATE_EPOCH: i64 = 1 << 31;

/// Days since 1970-01-01 of a civil date. Years count from March, so that leap days come last: Howard Hinnant's
/// "chrono-compatible low-level date algorithms".
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month as i64 + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The civil date (year, month, day) of a day since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// So many months later, or earlier; a day that the month does not have becomes its last.
pub fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil_from_days(days);
    let months = year * 12 + i64::from(month) - 1 + months;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, day.min(days_in_month(year, month)))
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// A cursor over digits and separators.
struct Scan<'a>(&'a str);

impl Scan<'_> {
    fn eat(&mut self, prefix: &str) -> bool {
        match self.0.strip_prefix(prefix) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Between `min` and `max` digits.
    fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let len = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if len < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(len);
        self.0 = rest;
        digits.parse().ok()
    }

    /// Digits after a point as a count of `10^-places`; further digits are cut off.
    fn fraction(&mut self, places: u32) -> Option<i64> {
        let len = self.0.bytes().take_while(u8::is_ascii_digit).count();
        if len == 0 || len > 18 {
            return None;
        }
        let value = self.number(len, len)?;
        let len = len as u32;
        Some(if len <= places { value * 10i64.pow(places - len) } else { value / 10i64.pow(len - places) })
    }

    fn civil(&mut self) -> Option<i64> {
        let negative = self.eat("-");
        let year = self.number(1, 7)? * if negative { -1 } else { 1 };
        if !self.eat("-") {
            return None;
        }
        let month = self.number(1, 2)? as u32;
        if !self.eat("-") {
            return None;
        }
        let day = self.number(1, 2)? as u32;
        if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
            return None;
        }
        Some(days_from_civil(year, month, day))
    }

    /// `HH:mm[:ss[.f]]` in nanoseconds.
    fn time_of_day(&mut self, seconds_required: bool) -> Option<i64> {
        let hour = self.number(1, 2)?;
        if !self.eat(":") {
            return None;
        }
        let minute = self.number(1, 2)?;
        let mut second = 0;
        let mut nanos = 0;
        if self.eat(":") {
            second = self.number(1, 2)?;
            if self.eat(".") {
                nanos = self.fraction(9)?;
            }
        } else if seconds_required {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some((hour * 3_600 + minute * 60 + second) * 1_000_000_000 + nanos)
    }

    /// Minutes east of UTC: nothing, `Z`, `UTC`, `GMT`, `+hh`, `+hhmm` or `+hh:mm`.
    fn zone(&mut self) -> Option<i64> {
        self.0 = self.0.trim_start_matches(' ');
        if self.0.is_empty() || ["Z", "z", "UTC", "GMT"].iter().any(|name| self.eat(name)) {
            return Some(0);
        }
        let sign = if self.eat("+") {
            1
        } else if self.eat("-") {
            -1
        } else {
            return None;
        };
        let hours = self.number(2, 2)?;
        self.eat(":");
        let minutes = if self.0.is_empty() { 0 } else { self.number(2, 2)? };
        (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Milliseconds since the epoch from an integer or a date in the formats of Cassandra's `TimestampSerializer`.
pub fn timestamp_from_text(text: &str) -> Result<i64, Error> {
    let refuse = || marshal(format!("Unable to coerce '{text}' to a formatted date (long)"));
    if is_integer(text) {
        return text.parse().map_err(|_| marshal(format!("Unable to make long (for date) from: '{text}'")));
    }
    // Spaces at the end, behind a zone's name, say nothing.
    let mut scan = Scan(text.trim_end_matches(' '));
    let days = scan.civil().ok_or_else(refuse)?;
    let mut nanos = 0;
    let time_follows = scan.eat("T")
        || (scan.0.strip_prefix(' ').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            && scan.eat(" "));
    if time_follows {
        // Said with more than the type can keep, which ScyllaDB refuses too; to drop digits would be another moment.
        let digits = scan.0.split_once('.').map_or("", |(_, fraction)| fraction);
        let digits = digits.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 3 {
            return Err(marshal(format!("Unable to parse '{text}': Milliseconds length exceeds expected ({digits})")));
        }
        nanos = scan.time_of_day(false).ok_or_else(refuse)?;
    }
    let zone_minutes = scan.zone().ok_or_else(refuse)?;
    if !scan.0.is_empty() {
        return Err(refuse());
    }
    Ok(days * MS_PER_DAY + nanos / 1_000_000 - zone_minutes * 60_000)
}

/// `2026-02-28T13:05:00.250Z`.
pub fn timestamp_to_text(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(MS_PER_DAY), ms.rem_euclid(MS_PER_DAY));
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", civil_to_text(days), of_day % 1_000)
}

fn civil_to_text(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    if year < 0 { format!("-{:04}-{month:02}-{day:02}", -year) } else { format!("{year:04}-{month:02}-{day:02}") }
}

/// The unsigned days of a `date`, from `yyyy-mm-dd` or the raw number.
pub fn date_from_text(text: &str) -> Result<u32, Error> {
    let refuse = || marshal(format!("Unable to coerce '{text}' to a formatted date (long)"));
    if is_integer(text) {
        let unsigned = || marshal(format!("Unable to make unsigned int (for date) from: '{text}'"));
        return text.parse().map_err(|_| unsigned());
    }
    let mut scan = Scan(text);
    let days = scan.civil().ok_or_else(refuse)?;
    if !scan.0.is_empty() {
        return Err(refuse());
    }
    u32::try_from(days + DATE_EPOCH).map_err(|_| refuse())
}

pub fn date_to_text(date: u32) -> String {
    civil_to_text(date as i64 - DATE_EPOCH)
}

/// The day that holds a timestamp, as `toDate` gives it.
pub fn date_of_timestamp(ms: i64) -> u32 {
    (ms.div_euclid(MS_PER_DAY) + DATE_EPOCH).clamp(0, u32::MAX as i64) as u32
}

pub fn timestamp_of_date(date: u32) -> i64 {
    (date as i64 - DATE_EPOCH) * MS_PER_DAY
}

/// Nanoseconds since midnight from `hh:mm:ss[.fffffffff]` or the raw number.
pub fn time_from_text(text: &str) -> Result<i64, Error> {
    if is_integer(text) {
        return match text.parse() {
            Ok(nanos) if (0..NS_PER_DAY).contains(&nanos) => Ok(nanos),
            _ => Err(marshal(format!("Unable to make long (for time) from: '{text}'"))),
        };
    }
    let refuse = || marshal(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"));
    let mut scan = Scan(text);
    let nanos = scan.time_of_day(true).ok_or_else(refuse)?;
    if scan.0.is_empty() { Ok(nanos) } else { Err(refuse()) }
}

/// `13:05:00.250000000`.
pub fn time_to_text(nanos: i64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_days_round_trip() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 3, 1), 11_017);
        assert_eq!(days_from_civil(1969, 12, 31), -1);
        for days in (-1_000_000..1_000_000).step_by(37) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn timestamps() {
        let check = |text: &str, expect: i64| assert_eq!(timestamp_from_text(text), Ok(expect), "{text}");
        check("0", 0);
        check("-1", -1);
        check("1970-01-02", 86_400_000);
        check("1970-01-01 00:01", 60_000);
        check("1970-01-01T00:00:01.5Z", 1_500);
        check("1970-01-01 01:00:00+0100", 0);
        check("1970-01-01 01:00:00.123+01:00", 123);
        check("1970-01-01T00:00:00 UTC", 0);
        check("1970-01-01 +01", -3_600_000);
        check("2011-02-03T04:05:00.000Z", 1_296_705_900_000);
        for bad in ["", "1970", "1970-13-01", "1970-02-29", "1970-01-01T", "1970-01-01 25:00", "1970-01-01 00:00x"] {
            assert!(timestamp_from_text(bad).is_err() || bad == "1970", "{bad}");
        }
        assert_eq!(timestamp_to_text(1_296_705_900_250), "2011-02-03T04:05:00.250Z");
        assert_eq!(timestamp_to_text(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(date_from_text("1970-01-01"), Ok(1 << 31));
        assert_eq!(date_from_text("2147483649"), Ok((1 << 31) + 1));
        assert_eq!(date_to_text((1 << 31) - 1), "1969-12-31");
        assert!(date_from_text("1970-01-01 00:00").is_err());
        assert_eq!(time_from_text("13:05:00.25"), Ok(47_100_250_000_000));
        assert_eq!(time_to_text(47_100_250_000_000), "13:05:00.250000000");
        assert!(time_from_text("24:00:00").is_err() && time_from_text("86400000000000").is_err());
        assert!(time_from_text("13:05").is_err());
    }
}
