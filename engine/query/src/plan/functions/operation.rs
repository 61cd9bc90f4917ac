//! `a + b` and its like: arithmetic of numbers, and of dates and timestamps with durations.
//!
//! As Cassandra's `OperationFcts`: two numbers are converted to the type that holds both, integers of a fixed size
//! wrap around, and what has a null operand is null.

use std::ops::{Add, Div, Mul, Rem, Sub};

use cql::ast::Term;
use cql::response::ErrorKind;
use num_bigint::BigInt;
use types::calendar::{self, DATE_EPOCH};
use types::decimal::{decimal_parts, decimal_value};
use types::duration::CqlDuration;
use types::{CqlType, Error};

use super::super::Markers;
use super::{Argument, Function};
use crate::error::{QueryError, invalid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
}

/// An operator with the types of its operands.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    operator: Operator,
    operands: Vec<CqlType>,
    result: CqlType,
}

impl Operator {
    pub fn named(name: &str, operands: usize) -> Option<Operator> {
        Some(match (name, operands) {
            ("+", 2) => Operator::Add,
            ("-", 2) => Operator::Subtract,
            ("*", 2) => Operator::Multiply,
            ("/", 2) => Operator::Divide,
            ("%", 2) => Operator::Remainder,
            ("-", 1) => Operator::Negate,
            _ => return None,
        })
    }

    pub fn symbol(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract | Operator::Negate => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
            Operator::Remainder => '%',
        }
    }

    /// Cassandra's name of the function.
    fn function(self) -> &'static str {
        match self {
            Operator::Add => "_add",
            Operator::Subtract => "_substract",
            Operator::Multiply => "_multiply",
            Operator::Divide => "_divide",
            Operator::Remainder => "_modulo",
            Operator::Negate => "_negate",
        }
    }

    fn moves(self) -> bool {
        matches!(self, Operator::Add | Operator::Subtract)
    }
}

/// Made of constants alone, which take the type that is wanted of the result.
fn is_untyped(term: &Term) -> bool {
    match term {
        Term::Null | Term::Constant { .. } => true,
        Term::Function { name, arguments } => {
            Operator::named(&name.name, arguments.len()).is_some() && arguments.iter().all(is_untyped)
        }
        _ => false,
    }
}

/// The type that untyped operands get from what the result is for.
pub(crate) fn wanted<'t>(operator: Operator, operands: &[Term], receiver: &'t CqlType) -> Option<&'t CqlType> {
    let given = match receiver {
        CqlType::Date | CqlType::Timestamp => operator.moves() && operands.first().is_some_and(is_untyped),
        ty => ty.is_number() && operands.iter().all(is_untyped),
    };
    given.then_some(receiver)
}

/// The operation on arguments of these types, and what it takes.
pub(crate) fn choose(
    operator: Operator,
    arguments: &[Argument<'_>],
    wanted: Option<&CqlType>,
    markers: &Markers,
) -> Result<(Function, Vec<CqlType>), QueryError> {
    let symbol = operator.symbol();
    let shown = |argument: &Argument<'_>| match argument {
        Argument::Typed(ty) => ty.to_string(),
        Argument::Term(term) => term.to_string(),
    };
    let shown = || arguments.iter().map(shown).collect::<Vec<_>>().join(" and ");
    let ambiguous = || {
        invalid!(
            "Ambiguous '{symbol}' operation with args {}: use type hint to disambiguate, example '(int) ?'",
            shown()
        )
    };
    let unsupported = || invalid!("the '{symbol}' operation is not supported between {}", shown());
    if arguments.iter().any(|argument| matches!(argument, Argument::Term(Term::Marker(_)))) {
        return Err(ambiguous());
    }
    let operands: Vec<CqlType> = match wanted {
        Some(ty @ (CqlType::Date | CqlType::Timestamp)) => vec![ty.clone(), CqlType::Duration],
        Some(number) => vec![number.clone(); arguments.len()],
        None => {
            let natural: Vec<_> = arguments.iter().map(|argument| argument.natural_type(markers)).collect();
            // Null has the type of the other operand.
            let known = natural.iter().flatten().next().cloned().ok_or_else(ambiguous)?;
            natural.into_iter().map(|ty| ty.unwrap_or_else(|| known.clone())).collect()
        }
    };
    if wanted.is_some() && !arguments.iter().zip(&operands).all(|(argument, ty)| argument.fits(ty, markers)) {
        return Err(unsupported());
    }
    let result = match operands.as_slice() {
        [number] if number.is_number() => wider(number, number),
        [a, b] if a.is_number() && b.is_number() => wider(a, b),
        [moment @ (CqlType::Date | CqlType::Timestamp), CqlType::Duration] if operator.moves() => moment.clone(),
        _ => return Err(unsupported()),
    };
    Ok((Function::Operation(Operation { operator, operands: operands.clone(), result }), operands))
}

/// The type that arithmetic with both numbers is done in.
fn wider(a: &CqlType, b: &CqlType) -> CqlType {
    use CqlType::*;
    // A number of any length counts as longer than those of a fixed one.
    let len = |ty: &CqlType| match ty {
        Float => 4,
        Double => 8,
        other => other.integer_len().unwrap_or(usize::MAX),
    };
    let fractions = [a, b].iter().any(|ty| matches!(ty, Float | Double | Decimal));
    match (len(a).max(len(b)), fractions) {
        (..=4, true) => Float,
        (..=8, true) => Double,
        (_, true) => Decimal,
        (1, false) => TinyInt,
        (2, false) => SmallInt,
        (..=4, false) => Int,
        (..=8, false) => BigInt,
        (_, false) => VarInt,
    }
}

impl Operation {
    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn result(&self) -> CqlType {
        self.result.clone()
    }

    pub fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, QueryError> {
        let given: Option<Vec<&[u8]>> = arguments.iter().map(|value| value.filter(|bytes| !bytes.is_empty())).collect();
        let Some(given) = given else { return Ok(None) };
        self.of(&given).map(Some).map_err(|cause| {
            let types: Vec<String> = self.operands.iter().map(ToString::to_string).collect();
            let kind = ErrorKind::FunctionFailure {
                keyspace: "system".to_string(),
                function: self.operator.function().to_string(),
                argument_types: types.clone(),
            };
            let shown = types.join(&format!(" {} ", self.operator.symbol()));
            QueryError::new(kind, format!("the operation '{shown}' failed: {cause}"))
        })
    }

    fn of(&self, given: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let number = |at: usize| self.operands[at].cast(&self.result, given[at]);
        match given {
            [_] => arithmetic(Operator::Subtract, &self.result, &zero(&self.result), &number(0)?),
            [moment, duration] if self.operands[1] == CqlType::Duration => {
                moved(&self.result, moment, CqlDuration::from_bytes(duration)?, self.operator)
            }
            _ => arithmetic(self.operator, &self.result, &number(0)?, &number(1)?),
        }
    }
}

/// What is subtracted from to negate; of floating point numbers the negative zero.
fn zero(ty: &CqlType) -> Vec<u8> {
    match ty {
        CqlType::Float => (-0.0f32).to_be_bytes().to_vec(),
        CqlType::Double => (-0.0f64).to_be_bytes().to_vec(),
        CqlType::Decimal => decimal_value(0, &BigInt::ZERO),
        ty => vec![0; ty.integer_len().unwrap_or(1)],
    }
}

fn apply<T>(operator: Operator, a: T, b: T) -> T
where
    T: Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T> + Rem<Output = T>,
{
    match operator {
        Operator::Add => a + b,
        Operator::Subtract | Operator::Negate => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::Remainder => a % b,
    }
}

/// Of two values of one numeric type.
pub(crate) fn arithmetic(operator: Operator, ty: &CqlType, a: &[u8], b: &[u8]) -> Result<Vec<u8>, Error> {
    fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Error> {
        bytes.try_into().map_err(|_| Error::Marshal(format!("{N} bytes wanted, got {}", bytes.len())))
    }
    macro_rules! floating {
        ($float:ty) => {{
            let (a, b) = (<$float>::from_be_bytes(array(a)?), <$float>::from_be_bytes(array(b)?));
            let value = apply(operator, a, b);
            Ok(value.to_be_bytes().to_vec())
        }};
    }
    match ty {
        CqlType::Float => floating!(f32),
        CqlType::Double => floating!(f64),
        CqlType::Decimal => decimals(operator, decimal_parts(a)?, decimal_parts(b)?),
        _ => {
            let (a, b) = (BigInt::from_signed_bytes_be(a), BigInt::from_signed_bytes_be(b));
            let by_zero = b == BigInt::ZERO && matches!(operator, Operator::Divide | Operator::Remainder);
            if by_zero {
                let cause = if *ty == CqlType::VarInt { "BigInteger divide by zero" } else { "/ by zero" };
                return Err(Error::Marshal(cause.to_string()));
            }
            let value = apply(operator, a, b);
            // The upper bits are lost, as in Java.
            CqlType::VarInt.cast(ty, &value.to_signed_bytes_be())
        }
    }
}

/// Beyond this distance of scales the result would have too many digits.
const SCALES_APART_MAX: i64 = 10_000;
/// Digits of a quotient, and the most that stand behind its point: Cassandra's `DecimalType`.
const QUOTIENT_DIGITS: i64 = 32;
const QUOTIENT_SCALE_MAX: i64 = 1_000;

fn power_of_ten(exponent: i64) -> Result<BigInt, Error> {
    match exponent {
        ..=SCALES_APART_MAX => Ok(BigInt::from(10).pow(exponent.max(0) as u32)),
        _ => Err(Error::Marshal("the scales of the two decimals are too far apart".to_string())),
    }
}

/// Of scale and unscaled value.
fn decimals(operator: Operator, a: (i64, BigInt), b: (i64, BigInt)) -> Result<Vec<u8>, Error> {
    let ((a_scale, a), (b_scale, b)) = (a, b);
    let scale = a_scale.max(b_scale);
    if operator == Operator::Multiply {
        return Ok(decimal_value(a_scale + b_scale, &(a * b)));
    }
    if matches!(operator, Operator::Divide | Operator::Remainder) && b == BigInt::ZERO {
        return Err(Error::Marshal("BigInteger divide by zero".to_string()));
    }
    if operator == Operator::Divide {
        let digits = |value: &BigInt| value.magnitude().to_string().len() as i64;
        let first_digit = (digits(&a) - a_scale) - (digits(&b) - b_scale);
        let wanted = (QUOTIENT_DIGITS - first_digit).max(scale).clamp(QUOTIENT_DIGITS, QUOTIENT_SCALE_MAX);
        // a / 10^a_scale / (b / 10^b_scale) * 10^wanted, with one bit more to round by.
        let shift = wanted + b_scale - a_scale;
        let (over, under) = (a * 2 * power_of_ten(shift)?, b * power_of_ten(-shift)?);
        let twice: BigInt = over / under;
        let half: BigInt = if twice.sign() == num_bigint::Sign::Minus { (twice - 1) / 2 } else { (twice + 1) / 2 };
        return Ok(stripped(wanted, half));
    }
    let (a, b) = (a * power_of_ten(scale - a_scale)?, b * power_of_ten(scale - b_scale)?);
    Ok(decimal_value(
        scale,
        &match operator {
            Operator::Add => a + b,
            Operator::Remainder => a % b,
            _ => a - b,
        },
    ))
}

/// Without zeros at its end.
fn stripped(mut scale: i64, mut unscaled: BigInt) -> Vec<u8> {
    if unscaled == BigInt::ZERO {
        return decimal_value(0, &unscaled);
    }
    while &unscaled % 10 == BigInt::ZERO {
        unscaled /= 10;
        scale -= 1;
    }
    decimal_value(scale, &unscaled)
}

/// A date or a timestamp later or earlier by a duration: first by its months, then by its days, then by the rest.
fn moved(ty: &CqlType, moment: &[u8], by: CqlDuration, operator: Operator) -> Result<Vec<u8>, Error> {
    const MS_PER_DAY: i64 = 86_400_000;
    let sign = if operator == Operator::Subtract { -1 } else { 1 };
    let days_behind =
        |days: i64| calendar::add_months(days, sign * i64::from(by.months)).saturating_add(sign * i64::from(by.days));
    if *ty == CqlType::Date {
        if by.nanos != 0 {
            return Err(Error::Marshal(format!("The duration must have a day precision. Was: {by}")));
        }
        let date = moment.try_into().map(u32::from_be_bytes).map_err(|_| Error::Marshal("not a date".to_string()))?;
        let days = days_behind(i64::from(date) - DATE_EPOCH);
        let date =
            u32::try_from(days + DATE_EPOCH).map_err(|_| Error::Marshal("the date is out of range".to_string()))?;
        return Ok(date.to_be_bytes().to_vec());
    }
    let ms = moment.try_into().map(i64::from_be_bytes).map_err(|_| Error::Marshal("not a timestamp".to_string()))?;
    let days = days_behind(ms.div_euclid(MS_PER_DAY));
    let out_of_range = || Error::Marshal("the timestamp is out of range".to_string());
    let whole = days.checked_mul(MS_PER_DAY).and_then(|whole| whole.checked_add(ms.rem_euclid(MS_PER_DAY)));
    let ms = whole.and_then(|ms| ms.checked_add(sign * (by.nanos / 1_000_000))).ok_or_else(out_of_range)?;
    Ok(ms.to_be_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        use CqlType::*;
        let check = |symbol: &str, ty: CqlType, a: &str, b: &str, expect: Option<&str>| {
            let operator = Operator::named(symbol, 2).unwrap();
            let bytes = |text: &str| ty.from_text(text).unwrap();
            let value = arithmetic(operator, &ty, &bytes(a), &bytes(b)).ok();
            assert_eq!(value.map(|value| ty.to_cql_literal(&value).unwrap()).as_deref(), expect, "{a} {symbol} {b}");
        };
        check("+", Int, "2147483647", "1", Some("-2147483648"));
        check("+", TinyInt, "100", "100", Some("-56"));
        check("/", Int, "-7", "2", Some("-3"));
        check("%", Int, "-7", "2", Some("-1"));
        check("/", Int, "1", "0", None);
        check("/", BigInt, "-9223372036854775808", "-1", Some("-9223372036854775808"));
        check("*", VarInt, "9223372036854775807", "2", Some("18446744073709551614"));
        check("/", Double, "1", "0", Some("Infinity"));
        check("%", Double, "2.5", "2", Some("0.5"));
        check("/", Decimal, "3.75", "3", Some("1.25"));
        check("/", Decimal, "1", "3", Some("0.33333333333333333333333333333333"));
        check("/", Decimal, "-2", "3", Some("-0.66666666666666666666666666666667"));
        check("%", Decimal, "-3.75", "2", Some("-1.75"));
        check("-", Decimal, "1.5", "0.25", Some("1.25"));
        check("+", Decimal, "1e100000", "1", None);
        check("/", Decimal, "1", "0", None);
    }

    #[test]
    fn moments() {
        let check = |ty: CqlType, moment: &str, operator, by: &str, expect: Option<&str>| {
            let by = CqlDuration::parse(by).unwrap();
            let value = moved(&ty, &ty.from_text(moment).unwrap(), by, operator).ok();
            assert_eq!(value, expect.map(|expect| ty.from_text(expect).unwrap()), "{moment} {by}");
        };
        check(CqlType::Date, "2020-01-31", Operator::Add, "1mo", Some("2020-02-29"));
        check(CqlType::Date, "2020-03-01", Operator::Subtract, "1d", Some("2020-02-29"));
        check(CqlType::Date, "2020-03-01", Operator::Add, "2h", None);
        check(CqlType::Timestamp, "2020-12-31T23:00Z", Operator::Add, "2mo1d2h", Some("2021-03-02T01:00Z"));
        check(CqlType::Timestamp, "1970-01-01", Operator::Subtract, "1ms", Some("1969-12-31T23:59:59.999Z"));
    }

    #[test]
    fn the_type_holds_both() {
        use CqlType::*;
        for (a, b, expect) in [
            (TinyInt, SmallInt, SmallInt),
            (Int, BigInt, BigInt),
            (Int, Float, Float),
            (BigInt, Float, Double),
            (VarInt, Double, Decimal),
            (Counter, Int, BigInt),
            (VarInt, TinyInt, VarInt),
        ] {
            assert_eq!(wider(&a, &b), expect, "{a} {b}");
            assert_eq!(wider(&b, &a), expect, "{b} {a}");
        }
    }
}
