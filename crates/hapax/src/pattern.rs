//! Whether a route belongs to a pattern, as in `PUT:customers-*`. What a pattern is good for is not its business.

/// Whether a route belongs to a pattern: its method to the method, its path to the path.
pub(crate) fn belongs(pattern: &str, route_pattern: &str) -> bool {
    let (method, path) = pattern.split_once(':').unwrap_or((pattern, ""));
    let (its_method, its_path) = route_pattern.split_once(':').unwrap_or((route_pattern, ""));
    (method == "*" || method == its_method) && matches(path.as_bytes(), its_path.as_bytes())
}

/// Whether `pattern` matches all of `text`. Linear: only the last star is ever tried again.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((after, from)) = star {
            p = after;
            t = from + 1;
            star = Some((after, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anything_and_the_method_is_apart() {
        for (pattern, text, expected) in [
            ("*:*", "POST:a", true),
            ("PUT:customers-*", "PUT:customers-{id}", true),
            ("PUT:customers-*", "PUT:customers", false),
            ("POST:*-hold", "POST:bookings-hold", true),
            ("POST:*a*a*a*b", "POST:aaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("*:jobs-*", "POST:x:jobs-{id}", false),
        ] {
            assert_eq!(belongs(pattern, text), expected, "{pattern} {text}");
        }
    }
}
