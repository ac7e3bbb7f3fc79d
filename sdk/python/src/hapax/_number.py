"""Writes numbers as ECMAScript does, and integers that no double equals digit for digit."""

from __future__ import annotations


def ecmascript(number: float) -> str:
    """`String(number)` of ECMAScript."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    digits, point = _shortest(abs(number))
    return sign + _placed(digits, point)


def hcj_integer(number: int) -> str:
    """The hcj-1 form of an integer.

    Raises OverflowError where the integer is beyond the range of a double.
    """
    if -(10**15) < number < 10**15:
        return int.__repr__(number)
    double = float(number)
    return ecmascript(double) if int(double) == number else int.__repr__(number)


def _shortest(number: float) -> tuple[str, int]:
    """The shortest digits of a positive double, and how many of them stand before the point."""
    mantissa, _, exponent = float.__repr__(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    point = len(whole) + int(exponent or 0) - leading
    return digits.strip("0"), point


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if count > 1 else ""
    exponent = point - 1
    return f"{digits[0]}{rest}e{'+' if exponent > 0 else '-'}{abs(exponent)}"
