//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whole and grouped from 100 on, with three significant digits below.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// ns in the unit that keeps it short: `412 us`, `9.61 ms`, `1.20 s`.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", plain(ns / 1e9)),
        ns if ns >= 1e6 => format!("{} ms", plain(ns / 1e6)),
        ns if ns >= 1e3 => format!("{} us", plain(ns / 1e3)),
        _ => format!("{ns:.0} ns"),
    }
}

/// `-1.2 %`, `+340 %`.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value.abs() >= 100.0 { format!("{value:+.0} %") } else { format!("{value:+.1} %") }
}

/// `1/1000` where the scale is one over a whole number.
pub fn scale(scale: f64) -> String {
    let divisor = 1.0 / scale;
    if divisor <= 1.0 {
        "full size".to_string()
    } else if (divisor - divisor.round()).abs() < 1e-6 {
        format!("data 1/{}", divisor.round())
    } else {
        format!("data x {scale}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(
            [plain(124_958.4), plain(41.26), plain(3.6), plain(0.0451), plain(0.0)],
            ["124,958", "41.3", "3.60", "0.045", "0.00"]
        );
        assert_eq!(
            [time(950.0), time(412_000.0), time(9_612_000.0), time(1.2e9)],
            ["950 ns", "412 us", "9.61 ms", "1.20 s"]
        );
        assert_eq!([percent(-0.0123), percent(3.4)], ["-1.2 %", "+340 %"]);
        assert_eq!([scale(0.001), scale(1.0)], ["data 1/1000", "full size"]);
    }
}
