//! Writes numbers as hcj-1, ECMAScript and Python do. It reads only literals that
//! [`scan`](super::scan) has accepted.

use super::scan::Literal;

/// Literals of up to this many digits name a double of their own, so the shortest
/// form of that double is the literal again.
const EXACT_DIGITS: usize = 15;

/// Literals of up to this many digits fit a word.
const WORD_DIGITS: usize = 19;

/// Whether hcj-1 writes the literal as it stands. May say no where the answer is yes.
#[inline]
pub(super) fn is_canonical(literal: &str, shape: &Literal) -> bool {
    let digits = shape.integer_digits + shape.fraction_digits;
    if shape.exponent || digits > WORD_DIGITS {
        return false;
    }
    if shape.fraction_digits == 0 {
        return digits <= EXACT_DIGITS && literal != "-0"
            || digits > EXACT_DIGITS && word(literal, shape) <= 1 << f64::MANTISSA_DIGITS;
    }
    if literal.ends_with('0') {
        return false;
    }
    // Below 1e-6 ECMAScript turns to exponents.
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    !unsigned.starts_with("0.000000") && (digits <= EXACT_DIGITS || is_shortest(literal, shape))
}

/// The digits of a literal, its point left out. There are at most 19 of them.
fn word(literal: &str, shape: &Literal) -> u64 {
    let unsigned = literal.strip_prefix('-').unwrap_or(literal).as_bytes();
    let (whole, rest) = unsigned.split_at(shape.integer_digits);
    // The point is no digit.
    let fraction = rest.get(1..).unwrap_or_default();
    usual_word(unsigned, whole.len(), fraction)
        .unwrap_or_else(|| append(append(0, whole), fraction))
}

/// The same for 1 to 8 digits before the point and 8 to 16 behind it: always the same steps, whatever the number.
#[inline]
fn usual_word(unsigned: &[u8], whole: usize, fraction: &[u8]) -> Option<u64> {
    let tail = fraction.len().checked_sub(8)?;
    let (head, middle, end) = (
        unsigned.first_chunk()?,
        fraction.first_chunk()?,
        fraction.last_chunk()?,
    );
    // What is left of eight bytes when others move in from the front is a number with zeros before it.
    let before =
        u64::from_le_bytes(*head).checked_shl(u32::try_from(64 - 8 * whole.min(8)).ok()?)?;
    let after = u64::from_le_bytes(*end) & *TAILS.get(tail)?;
    (whole <= 8).then(|| {
        let word = number_of(before) * 100_000_000 + number_of(u64::from_le_bytes(*middle));
        word * POWERS[tail] + number_of(after)
    })
}

/// Keeps the last digits of eight.
const TAILS: [u64; 9] = {
    let mut masks = [u64::MAX; 9];
    masks[0] = 0;
    let mut count = 1;
    while count < 8 {
        masks[count] = u64::MAX << (64 - 8 * count);
        count += 1;
    }
    masks
};

/// How far a number moves for so many digits behind it.
const POWERS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// A number with these digits behind its own.
fn append(mut word: u64, digits: &[u8]) -> u64 {
    let (eights, rest) = digits.as_chunks::<8>();
    for eight in eights {
        word = word * 100_000_000 + number_of(u64::from_le_bytes(*eight));
    }
    let digits = rest.iter().map(|digit| u64::from(digit - b'0'));
    digits.fold(word, |word, digit| word * 10 + digit)
}

/// The number that eight digits write: pairs of digits, then pairs of pairs, each step for all of them at once.
#[inline]
const fn number_of(digits: u64) -> u64 {
    let ones = digits & 0x0F0F_0F0F_0F0F_0F0F;
    let twos = (ones * 10 + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_FFFF_0000_FFFF;
    (fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF
}

/// The powers of ten that a double holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The same as whole numbers.
const WHOLE_TENS: [i128; TENS.len()] = {
    let mut tens = [1; TENS.len()];
    let mut place = 1;
    while place < tens.len() {
        tens[place] = tens[place - 1] * 10;
        place += 1;
    }
    tens
};

/// Whether a literal with a fraction, whose last digit is not 0, is the shortest of its double and, of those, the
/// nearest. May say no where the answer is yes.
///
/// With k decimals and a double of m / 2^s, everything is compared in steps of 1 / (10^k 2^s): there the double is
/// m 10^k, one unit of the last digit is 2^s, and what rounds to the double is up to 10^k / 2 away from it.
fn is_shortest(literal: &str, shape: &Literal) -> bool {
    let word = word(literal, shape);
    if word < 10_u64.pow(15) {
        return true;
    }
    let decimals = shape.fraction_digits;
    let (Some(ten), Some(power)) = (TENS.get(decimals), WHOLE_TENS.get(decimals).copied()) else {
        return false;
    };
    // Rounded twice, so it may be next to the nearest double; whether it is that one is looked at below.
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is lost is looked at below"
    )]
    let bits = (word as f64 / ten).to_bits();
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    let Some(shift @ 1..=70) = 1075_u64.checked_sub(bits >> 52) else {
        return false;
    };
    // At a power of two the room below is smaller; beyond 17 digits nothing is the shortest.
    if mantissa == 1 << 52 || word >= 10_u64.pow(17) {
        return false;
    }
    let unit = 1_i128 << shift;
    let half = power / 2;
    let mut away = i128::from(word) * unit - i128::from(mantissa) * power;
    let next = i64::from(away > half) - i64::from(away < -half);
    let mantissa = mantissa.wrapping_add_signed(next);
    away -= i128::from(next) * power;
    // Next to a power of two the steps between doubles change.
    if away.abs() >= half || mantissa <= 1 << 52 || mantissa >= 1 << 53 {
        return false;
    }
    let last = i128::from(word % 10);
    let shorter = away - last * unit;
    away.abs() < unit / 2 && shorter.abs() > half && (shorter + 10 * unit).abs() > half
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scan;
    use super::*;

    fn written(literal: &str) -> (bool, String) {
        let shape = scan::number(literal.as_bytes(), 0).expect("a number");
        let mut out = Vec::new();
        hcj(literal, &shape, &mut |bytes| out.extend_from_slice(bytes));
        let out = String::from_utf8(out).expect("digits");
        (is_canonical(literal, &shape), out)
    }

    #[test]
    fn the_digits_of_a_literal_are_read_without_its_sign_and_point() {
        for (literal, digits) in [
            ("0.5", 5),
            ("-12345678.12345678", 1_234_567_812_345_678),
            ("9999999999999999999", 9_999_999_999_999_999_999),
            ("-0.1234567890123456789", 1_234_567_890_123_456_789),
        ] {
            let shape = scan::number(literal.as_bytes(), 0).expect("a number");
            assert_eq!(word(literal, &shape), digits, "{literal}");
        }
    }

    #[test]
    fn doubles_with_all_their_digits_need_no_writing() {
        for literal in [
            "123.45678901234568",
            "0.1234567890123456",
            "1.0000000000000002",
        ] {
            assert_eq!(written(literal), (true, literal.to_owned()));
        }
        for integer in ["1700000000000001", "9007199254740992", "-9007199254740992"] {
            assert_eq!(written(integer), (true, integer.to_owned()));
        }
    }

    #[test]
    fn a_longer_or_farther_spelling_is_seen() {
        for (literal, shortest) in [
            ("0.3000000000000000444", "0.30000000000000004"),
            ("0.1000000000000000055", "0.1"),
            ("0.30000000000000005", "0.30000000000000004"),
            ("5.0000000000000001", "5"),
        ] {
            assert_eq!(written(literal), (false, shortest.to_owned()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_is_called_canonical_is_written_the_same(literal in "-?(0|[1-9][0-9]{0,8})\\.[0-9]{0,16}[1-9]") {
            let (canonical, out) = written(&literal);
            prop_assert!(!canonical || out == literal);
        }

        #[test]
        fn the_neighbours_of_a_shortest_form_are_told_from_it(double in 1e-6_f64..1e9, by in -3_i64..=3) {
            let text = ecmascript(double);
            prop_assume!(text.contains('.'));
            let (whole, fraction) = text.split_once('.').expect("it was just seen");
            let digits: i64 = format!("{whole}{fraction}").parse().expect("17 digits at most");
            let moved = format!("{:0width$}", digits + by, width = text.len() - 1);
            let (whole, fraction) = moved.split_at(moved.len() - fraction.len());
            let moved = format!("{whole}.{fraction}");
            let (canonical, out) = written(&moved);
            prop_assert!(!canonical || out == moved, "{moved} is {out}");
        }

        #[test]
        fn the_shortest_form_is_nearly_always_known(doubles in proptest::collection::vec(1.0_f64..1e6, 64)) {
            let known = doubles.iter().filter(|double| written(&ecmascript(**double)).0).count();
            prop_assert!(known >= 60);
        }
    }
}
