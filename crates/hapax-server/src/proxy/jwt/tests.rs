//! Which tokens are believed, and whose requests they make.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey, crypto, get_current_timestamp};
use serde_json::json;

use super::*;

pub(super) const SECRET_TEXT: &str = "a secret of more than thirty-two bytes";
const TENANT: &str = "11111111-1111-4111-8111-111111111111";

pub(super) fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = BASE64URL_NOPAD.encode(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

pub(super) fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = EncodingKey::from_secret(secret);
    let text = crypto::sign(message, &key, Algorithm::HS256).unwrap();
    BASE64URL_NOPAD.decode(text.as_bytes()).unwrap()
}

fn hs256(claims: &Value) -> String {
    signed(&json!({"alg": "HS256"}), claims, |message| {
        hmac(SECRET_TEXT.as_bytes(), message)
    })
}

/// Good claims for a minute, with these laid over; null takes one away.
pub(super) fn claims(over: &Value) -> Value {
    let mut claims = json!({"exp": get_current_timestamp() + 60, "tenant_id": TENANT});
    for (name, value) in over.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims
                .as_object_mut()
                .unwrap()
                .insert(name.clone(), value.clone()),
        };
    }
    claims
}

pub(super) fn jwt_with(lines: &str, algorithm: &str, key: DecodingKey) -> Jwt {
    let text = format!("jwt_algorithms = ['{algorithm}']\n{lines}");
    let config: Config = toml::from_str(&format!("[proxy]\n{text}")).unwrap();
    let tokens = config.tokens().unwrap().unwrap();
    Jwt::new(&config.proxy, tokens, key)
}

fn jwt(lines: &str) -> Jwt {
    let key = DecodingKey::from_secret(SECRET_TEXT.as_bytes());
    jwt_with(
        &format!("tenant_claim = 'tenant_id'\n{lines}"),
        "HS256",
        key,
    )
}

fn identify(jwt: &Jwt, authorization: &[&str]) -> Result<Bearer, (u16, String)> {
    let values = authorization.iter().map(|value| {
        let value = http::HeaderValue::from_str(value).unwrap();
        (AUTHORIZATION, value)
    });
    jwt.identify(&values.collect())
        .map_err(|problem| (problem.status().as_u16(), problem.code().to_owned()))
}

pub(super) fn believed(jwt: &Jwt, token: &str) -> Result<Bearer, (u16, String)> {
    identify(jwt, &[&format!("Bearer {token}")])
}

pub(super) fn unauthorized<T>() -> Result<T, (u16, String)> {
    Err((401, "unauthorized".to_owned()))
}

#[test]
fn a_valid_token_names_the_tenant() {
    let found = believed(&jwt(""), &hs256(&claims(&json!({})))).unwrap();
    assert_eq!(found.tenant.unwrap().to_string(), TENANT);
    assert_eq!(found.principal, None, "it has no subject");
    let within = jwt_with(
        "tenant_claim = 'app.tenant.id'",
        "HS256",
        DecodingKey::from_secret(SECRET_TEXT.as_bytes()),
    );
    let nested = json!({"tenant_id": null, "app": {"tenant": {"id": TENANT}}});
    let found = believed(&within, &hs256(&claims(&nested))).unwrap();
    assert_eq!(found.tenant.unwrap().to_string(), TENANT);
}

#[test]
fn a_valid_token_without_the_tenant_is_told_so() {
    for over in [
        json!({"tenant_id": null}),
        json!({"tenant_id": "acme"}),
        json!({"tenant_id": 7}),
        json!({"tenant_id": [TENANT]}),
        json!({"tenant_id": {"id": TENANT}}),
        json!({"tenant_id": ""}),
    ] {
        let found = believed(&jwt(""), &hs256(&claims(&over)));
        assert_eq!(found, Err((400, "tenant_required".to_owned())), "{over}");
    }
}

#[test]
fn only_one_bearer_token_is_looked_at() {
    let token = hs256(&claims(&json!({})));
    let bearer = format!("Bearer {token}");
    assert!(identify(&jwt(""), &[&format!("bEARER  {token}")]).is_ok());
    for wrong in [
        &[][..],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &[token.as_str()],
        &["Basic eDp5"],
        &["Bearer a.b.c"],
        &["Bearer a.b"],
        &[bearer.as_str(), bearer.as_str()],
        &[bearer.as_str(), "Basic eDp5"],
        &[&format!("{bearer}, {bearer}")],
    ] {
        assert_eq!(identify(&jwt(""), wrong), unauthorized(), "{wrong:?}");
    }
}

#[test]
fn a_token_counts_in_its_time_only() {
    let now = get_current_timestamp();
    for (over, is_valid) in [
        (json!({"exp": now - 10}), true),
        (json!({"exp": now - 120}), false),
        (json!({"exp": 0}), false),
        (json!({"exp": -1}), false),
        (json!({"exp": null}), false),
        (json!({"exp": "tomorrow"}), false),
        (json!({"nbf": now + 10}), true),
        (json!({"nbf": now + 120}), false),
        (json!({"nbf": "tomorrow"}), false),
    ] {
        let found = believed(&jwt(""), &hs256(&claims(&over)));
        assert_eq!(found.is_ok(), is_valid, "{over}: {found:?}");
        assert!(is_valid || found == unauthorized());
    }
}

#[test]
fn issuer_and_audience_are_checked_where_they_are_named() {
    let strict = jwt("jwt_issuer = 'https://me'\njwt_audience = 'shop'");
    for (over, is_valid) in [
        (json!({"iss": "https://me", "aud": "shop"}), true),
        (json!({"iss": "https://me", "aud": ["other", "shop"]}), true),
        (json!({"iss": "https://me", "aud": "other"}), false),
        (json!({"iss": "https://me", "aud": []}), false),
        (json!({"iss": "https://me"}), false),
        (json!({"iss": "https://you", "aud": "shop"}), false),
        (json!({"aud": "shop"}), false),
    ] {
        let found = believed(&strict, &hs256(&claims(&over)));
        assert_eq!(found.is_ok(), is_valid, "{over}: {found:?}");
        assert!(is_valid || found == unauthorized());
    }
    let any = json!({"iss": "https://you", "aud": "other"});
    assert!(believed(&jwt(""), &hs256(&claims(&any))).is_ok());
}

#[test]
fn a_signature_that_is_not_the_keys_is_refused() {
    let good = claims(&json!({}));
    let by_other = |message: &[u8]| hmac(b"another secret of thirty-two bytes or so", message);
    let alg = |name: &str| json!({"alg": name});
    let keyed = |message: &[u8]| hmac(SECRET_TEXT.as_bytes(), message);
    let parts: Vec<String> = hs256(&good).split('.').map(str::to_owned).collect();
    let other = json!({"tenant_id": "22222222-2222-4222-8222-222222222222"});
    let changed = BASE64URL_NOPAD.encode(claims(&other).to_string().as_bytes());
    for token in [
        signed(&alg("HS256"), &good, by_other),
        signed(&alg("HS256"), &good, |_| Vec::new()),
        signed(&alg("none"), &good, |_| Vec::new()),
        signed(&alg("None"), &good, keyed),
        signed(&alg("HS512"), &good, keyed),
        signed(&alg("RS256"), &good, keyed),
        signed(&json!({}), &good, keyed),
        signed(
            &json!({"alg": "HS256", "crit": ["x"], "x": 1}),
            &good,
            keyed,
        ),
        format!("{}.{changed}.{}", parts[0], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
    ] {
        assert_eq!(believed(&jwt(""), &token), unauthorized(), "{token}");
    }
}

#[test]
fn a_subject_is_the_same_principal_in_every_token() {
    let of = |over: Value| {
        believed(&jwt(""), &hs256(&claims(&over)))
            .unwrap()
            .principal
    };
    let later = get_current_timestamp() + 600;
    let alice = of(json!({"iss": "me", "sub": "alice"}));
    assert!(alice.is_some());
    assert_eq!(
        alice,
        of(json!({"iss": "me", "sub": "alice", "exp": later}))
    );
    assert_ne!(alice, of(json!({"iss": "me", "sub": "bob"})));
    assert_ne!(alice, of(json!({"iss": "you", "sub": "alice"})));
    assert_ne!(alice, of(json!({"iss": "mea", "sub": "lice"})));
    assert_ne!(alice, of(json!({"sub": "alice"})));
    for without in [
        json!({"iss": "me"}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"iss": ["me"], "sub": "alice"}),
    ] {
        assert_eq!(of(without.clone()), None, "{without}");
    }
}

#[test]
fn nothing_shows_the_key() {
    let shown = format!("{:?}", jwt(""));
    let bytes = format!("{:?}", SECRET_TEXT.as_bytes());
    assert!(!shown.contains(SECRET_TEXT) && !shown.contains(bytes.trim_matches(['[', ']'])));
}
