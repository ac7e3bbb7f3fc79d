//! Writes numbers as hcj-1, ECMAScript and Python do. It reads only literals that
//! [`scan`](super::scan) has accepted.

use super::scan::Literal;

/// Literals of up to this many digits name a double of their own, so the shortest
/// form of that double is the literal again.
const EXACT_DIGITS: usize = 15;

/// Whether hcj-1 writes the literal as it stands. May say no where the answer is yes.
#[inline]
pub(super) fn is_canonical(literal: &[u8], shape: &Literal) -> bool {
    if shape.exponent || shape.integer_digits + shape.fraction_digits > EXACT_DIGITS {
        return false;
    }
    if shape.fraction_digits == 0 {
        return literal != b"-0";
    }
    if literal.last() == Some(&b'0') {
        return false;
    }
    // Below 1e-6 ECMAScript turns to exponents.
    let unsigned = literal.strip_prefix(b"-").unwrap_or(literal);
    !unsigned.starts_with(b"0.000000")
}

/// Whether the literal is beyond the range of a double.
#[inline]
pub(super) fn overflows(literal: &str, shape: &Literal) -> bool {
    (shape.exponent || shape.integer_digits > 308) && double(literal).is_infinite()
}

/// The nearest double; infinite where the literal is beyond the range.
pub(super) fn double(literal: &str) -> f64 {
    literal
        .parse()
        .expect("the JSON number grammar is a subset of Rust's")
}

/// The hcj-1 form: ECMAScript's, but an integer that no double equals keeps its digits.
pub(super) fn hcj(literal: &str, shape: &Literal, out: &mut impl FnMut(&[u8])) {
    let double = double(literal);
    if shape.is_integer() && !equals(literal, shape, double) {
        out(literal.as_bytes());
    } else {
        out(ryu_js::Buffer::new().format_finite(double).as_bytes());
    }
}

fn equals(literal: &str, shape: &Literal, double: f64) -> bool {
    if shape.integer_digits <= EXACT_DIGITS {
        return true;
    }
    // With precision 0 Rust prints every digit of the double.
    format!("{double:.0}") == literal
}

/// `String(number)` of ECMAScript.
pub(super) fn ecmascript(double: f64) -> String {
    ryu_js::Buffer::new().format(double).to_owned()
}

/// `repr(float)` of Python 3, in the spelling of its JSON module.
pub(super) fn python(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    // Rust breaks ties between two shortest forms upwards, Python and Ryu to the even digit.
    let (digits, point) = shortest(double);
    let sign = if double.is_sign_negative() { "-" } else { "" };
    let exponent = point - 1;
    if !(-4..16).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!(
            "{sign}{first}{dot}{rest}e{exponent_sign}{:02}",
            exponent.abs()
        );
    }
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    if point <= 0 {
        format!("{sign}0.{}{digits}", zeros(-point))
    } else if point >= count {
        format!("{sign}{digits}{}.0", zeros(point - count))
    } else {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        format!("{sign}{whole}.{fraction}")
    }
}

/// The shortest digits of a finite double, and how many of them stand before the point.
fn shortest(double: f64) -> (String, i32) {
    let text = ecmascript(double.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().expect("an exponent is a small integer");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let trimmed = digits.trim_matches('0');
    if trimmed.is_empty() {
        return ("0".to_owned(), 1);
    }
    let before = i32::try_from(whole.len()).expect("at most 21 digits before the point");
    let leading = i32::try_from(leading).expect("at most 7 leading zeros");
    (trimmed.to_owned(), before + exponent - leading)
}
