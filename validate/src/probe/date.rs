//! The day, for the sources of figures.

use std::time::{SystemTime, UNIX_EPOCH};

/// Year, month and day in UTC.
#[allow(clippy::disallowed_methods, reason = "a measurement's day is the real world's")]
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    of_day(seconds / 86_400)
}

/// The civil date of a day since 1970-01-01.
fn of_day(days: u64) -> String {
    let mut year = 1970;
    let mut left = days;
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut length = 365;
    while left >= length {
        left -= length;
        year += 1;
        length = if is_leap(year) { 366 } else { 365 };
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::of_day;

    #[test]
    fn days_have_dates() {
        for (day, date) in
            [(0, "1970-01-01"), (58, "1970-02-28"), (59, "1970-03-01"), (789, "1972-02-29"), (20_778, "2026-11-21")]
        {
            assert_eq!(of_day(day), date);
        }
    }
}
