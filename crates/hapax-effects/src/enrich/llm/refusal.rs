//! The error bodies of LiteLLM and of what may stand in front of it, told in one code and one line.

use serde_json::Value;

/// How much of a refusal is told.
pub(super) const MESSAGE_CHARS_MAX: usize = 500;
const CODE_CHARS_MAX: usize = 100;

/// The code and the message of a JSON body: `{"error":{message,type,code}}`, `{"error":"…"}` or `{"detail":[{msg}]}`.
/// LiteLLM's code is often the status once more, as a text; then its type says more.
pub(in crate::enrich) fn told(body: &Value) -> (Option<String>, String) {
    let error = &body["error"];
    let words: Vec<String> = ["code", "type"]
        .iter()
        .filter_map(|name| match &error[*name] {
            Value::String(word) => Some(one_line(word.as_bytes(), CODE_CHARS_MAX)),
            Value::Number(word) => Some(word.to_string()),
            _ => None,
        })
        .filter(|word| !word.is_empty() && word != "None")
        .collect();
    let is_word = |word: &&String| !word.bytes().all(|byte| byte.is_ascii_digit());
    let code = words.iter().find(is_word).or(words.first()).cloned();
    let message = match (error, &body["detail"]) {
        (Value::String(message), _) | (_, Value::String(message)) => message.clone(),
        (Value::Object(_), _) => match &error["message"] {
            Value::String(message) => message.clone(),
            _ => error.to_string(),
        },
        (_, Value::Array(details)) => details.iter().map(detail).collect::<Vec<_>>().join("; "),
        _ => match body {
            Value::Null => "nothing was said".to_owned(),
            other => other.to_string(),
        },
    };
    (code, one_line(message.as_bytes(), MESSAGE_CHARS_MAX))
}

/// `body.purpose: Field required`.
fn detail(detail: &Value) -> String {
    let place: Vec<String> = detail["loc"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|part| {
            part.as_str()
                .map_or_else(|| part.to_string(), str::to_owned)
        })
        .collect();
    match detail["msg"].as_str() {
        Some(message) => format!("{}: {message}", place.join(".")),
        None => detail.to_string(),
    }
}

/// The same of bytes, which may be a bare text.
pub(super) fn told_bytes(bytes: &[u8]) -> (Option<String>, String) {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(body @ Value::Object(_)) => told(&body),
        _ => (None, one_line(bytes, MESSAGE_CHARS_MAX)),
    }
}

/// The beginning of a text, on one line.
pub(in crate::enrich) fn one_line(bytes: &[u8], chars_max: usize) -> String {
    let most = bytes.len().min(chars_max * 4);
    let text = String::from_utf8_lossy(&bytes[..most]);
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    let text: String = text.chars().take(chars_max).map(shown).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_a_refusal_becomes_a_code_and_a_line() {
        for (body, code, message) in [
            (
                r#"{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}"#,
                Some("no_db_connection"),
                "No connected db.",
            ),
            (
                r#"{"error":{"message":"no such model","type":"None","param":null,"code":"400"}}"#,
                Some("400"),
                "no such model",
            ),
            (
                r#"{"error":{"message":"too long","type":"x","code":"context_length_exceeded"}}"#,
                Some("context_length_exceeded"),
                "too long",
            ),
            (
                r#"{"error":{"message":"slow\ndown","type":"throttled","code":null}}"#,
                Some("throttled"),
                "slow down",
            ),
            (r#"{"error":{"code":429}}"#, Some("429"), r#"{"code":429}"#),
            (r#"{"error":"no"}"#, None, "no"),
            (
                r#"{"detail":[{"type":"missing","loc":["body","purpose"],"msg":"Field required"}]}"#,
                None,
                "body.purpose: Field required",
            ),
            (r#"{"detail":"Not Found"}"#, None, "Not Found"),
            ("Internal Server Error", None, "Internal Server Error"),
            ("[1]", None, "[1]"),
            ("", None, ""),
        ] {
            let found = told_bytes(body.as_bytes());
            assert_eq!(
                found,
                (code.map(str::to_owned), message.to_owned()),
                "{body}"
            );
        }
        let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(1 << 20));
        assert_eq!(told_bytes(long.as_bytes()).1.len(), MESSAGE_CHARS_MAX);
    }
}
