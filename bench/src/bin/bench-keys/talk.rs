//! What is said to a server for one operation, and what it must answer.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::wire::{Answer, Wire};

/// The token of the remote API, for this run only and on loopback only.
pub(crate) const TOKEN: &str = "the-token-of-a-bench-on-loopback";

/// How a server is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Talk {
    /// A payment to a handler that knows no keys.
    Bare,
    /// A payment under a key; a repeated one is marked.
    Keyed,
    /// A payment under a key to a peer whose repeated answers carry no mark.
    Unmarked,
    /// Claim and complete over the remote API: two requests, or one when the claim is a replay.
    Remote,
}

/// The part of a claim's answer that the bench needs.
#[derive(Deserialize)]
struct Claimed<'a> {
    action: &'a str,
    id: &'a str,
    token: Option<&'a str>,
}

impl Talk {
    /// One operation under `key`, checked. `recorded` is the answer that a replay must give again, byte for byte.
    pub(crate) async fn once(
        self,
        wire: &mut Wire,
        key: &str,
        recorded: Option<&[u8]>,
    ) -> Result<()> {
        match self {
            Talk::Bare => check(&wire.ask(&payment(None, "x")).await?, false),
            Talk::Keyed | Talk::Unmarked => {
                let answer = wire.ask(&payment(Some(key), key)).await?;
                check(&answer, self == Talk::Keyed && recorded.is_some())?;
                match recorded {
                    None => Ok(()),
                    Some(recorded) => self.check_replay(answer.body, recorded),
                }
            }
            Talk::Remote => {
                let replayed = claim_and_complete(wire, key).await?;
                ensure!(
                    replayed == recorded.is_some(),
                    "the claim was answered with {}",
                    if replayed { "a replay" } else { "a lease" }
                );
                Ok(())
            }
        }
    }

    /// A replay must be what was recorded: byte for byte, or of a peer that writes its JSON anew, in meaning.
    fn check_replay(self, answer: &[u8], recorded: &[u8]) -> Result<()> {
        let same = answer == recorded
            || self == Talk::Unmarked
                && serde_json::from_slice::<serde_json::Value>(answer)?
                    == serde_json::from_slice::<serde_json::Value>(recorded)?;
        ensure!(same, "a replay is not what was recorded");
        Ok(())
    }

    /// Has `key` answered, whether it is new or not; the answer that replays must give.
    pub(crate) async fn prime(self, wire: &mut Wire, key: &str) -> Result<Vec<u8>> {
        match self {
            Talk::Bare => Ok(Vec::new()),
            Talk::Keyed | Talk::Unmarked => {
                let answer = wire.ask(&payment(Some(key), key)).await?;
                check(&answer, answer.replayed)?;
                Ok(answer.body.to_vec())
            }
            Talk::Remote => claim_and_complete(wire, key).await.map(|_| Vec::new()),
        }
    }
}

fn check(answer: &Answer<'_>, replayed: bool) -> Result<()> {
    ensure!(
        answer.status == 201,
        "the server answered {}: {}",
        answer.status,
        String::from_utf8_lossy(answer.body)
    );
    ensure!(
        answer.replayed == replayed,
        "the answer is {}marked as a replay",
        if answer.replayed { "" } else { "not " }
    );
    ensure!(
        answer.body.starts_with(b"{") && answer.body.ends_with(b"}"),
        "the answer is no payment: {}",
        String::from_utf8_lossy(answer.body)
    );
    Ok(())
}

/// Claims and completes; says whether it was a replay.
async fn claim_and_complete(wire: &mut Wire, key: &str) -> Result<bool> {
    let payment = payment_json(key);
    let claim = format!(
        r#"{{"key":"{key}","method":"POST","path":"/payments","body":{payment},"content_type":"application/json"}}"#
    );
    let answer = wire
        .ask(&post("/v1/keys/claim", Header::Token, claim.as_bytes()))
        .await?;
    ensure!(
        answer.status == 200,
        "the claim was answered {}: {}",
        answer.status,
        String::from_utf8_lossy(answer.body)
    );
    let claimed: Claimed<'_> = serde_json::from_slice(answer.body).context("reading a claim")?;
    if claimed.action == "replay" {
        return Ok(true);
    }
    ensure!(
        claimed.action == "process",
        "the claim's action is {}",
        claimed.action
    );
    let token = claimed.token.context("a claim to process has no token")?;
    let complete = format!(
        r#"{{"token":"{token}","status":201,"headers":{{"content-type":"application/json"}},"body":{payment}}}"#
    );
    let path = format!("/v1/keys/{}/complete", claimed.id);
    let answer = wire
        .ask(&post(&path, Header::Token, complete.as_bytes()))
        .await?;
    ensure!(
        answer.status == 200,
        "the completion was answered {}: {}",
        answer.status,
        String::from_utf8_lossy(answer.body)
    );
    Ok(false)
}

/// A payment of about 200 bytes.
pub(crate) fn payment_json(reference: &str) -> String {
    format!(
        r#"{{"amount":4200,"currency":"EUR","customer":"cus_8841","description":"two chairs and a table, oak","reference":"{reference}","metadata":{{"cart":"c-1184","channel":"web","attempt":1}}}}"#
    )
}

fn payment(key: Option<&str>, reference: &str) -> Vec<u8> {
    let header = key.map_or(Header::None, Header::Key);
    post("/payments", header, payment_json(reference).as_bytes())
}

/// The header that a request has beside those of every request.
#[derive(Clone, Copy)]
enum Header<'a> {
    None,
    Key(&'a str),
    Token,
}

fn post(path: &str, header: Header<'_>, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(body.len() + 256);
    let write = |request: &mut Vec<u8>| -> std::io::Result<()> {
        write!(
            request,
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        )?;
        match header {
            Header::None => {}
            Header::Key(key) => write!(request, "idempotency-key: {key}\r\n")?,
            Header::Token => write!(request, "authorization: Bearer {TOKEN}\r\n")?,
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        Ok(())
    };
    write(&mut request).expect("a vector takes everything");
    request
}
