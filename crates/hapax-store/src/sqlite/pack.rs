//! A move with its bodies in column form, made before the writer sees it so that the writer only writes.

use bytes::Bytes;
use hapax_core::{Error, Move, State, ledger::Write};

use crate::codec;
use crate::vault::{Ring, Seal};

/// Packed bodies over this are kept beside the row.
const INLINE_BYTES_MAX: usize = 4096;

/// A move, ready to be written.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) step: Move,
    pub(super) write: Write,
    /// Empty when the move does not touch the request.
    pub(super) asked: Asked,
    /// Absent also when the move does not touch the request.
    pub(super) request: Option<Column>,
    /// Present if the move writes an outcome.
    pub(super) response: Option<Response>,
}

/// The columns that tell what was asked, beside its body.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) fingerprint: Vec<u8>,
    pub(super) content_hash: String,
    pub(super) path: String,
    pub(super) masks: Option<String>,
}

/// The columns of an outcome.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: String,
    pub(super) body: Option<Column>,
    pub(super) completed_at: i64,
}

/// A packed body.
#[derive(Debug)]
pub(super) struct Column(Vec<u8>);

impl Column {
    /// The bytes, if they belong in the row.
    pub(super) fn inline(&self) -> Option<&[u8]> {
        (!self.is_apart()).then_some(&self.0)
    }

    /// The bytes, if they belong beside the row.
    pub(super) fn apart(&self) -> Option<&[u8]> {
        self.is_apart().then_some(&self.0)
    }

    fn is_apart(&self) -> bool {
        self.0.len() > INLINE_BYTES_MAX
    }
}

impl Packed {
    /// Packs what the move will write, and nothing else; sealed, if there are keys for it.
    pub(super) fn of(step: Move, ring: Option<&Ring>) -> Result<Self, Error> {
        let write = step.write();
        let next = &step.next;
        let seal = Seal::new(ring, next.scope.tenant.as_uuid(), next.id.as_uuid());
        let column = |name, body: &Bytes| seal.body(name, body).map(Column);
        let (mut asked, mut request) = (Asked::default(), None);
        if matches!(write, Write::Insert | Write::Replace) {
            let (fingerprint, content_hash) =
                seal.asked(&next.fingerprint, &next.request.content_hash)?;
            asked = Asked {
                fingerprint,
                content_hash,
                path: seal.text("request_path", &next.request.path)?,
                masks: codec::pack_masks(&next.request.masks),
            };
            let body = next.request.body.as_ref();
            request = body.map(|body| column("request_body", body)).transpose()?;
        }
        let response = match &step.next.state {
            State::Settled { outcome, at } => Some(Response {
                status: outcome.status,
                headers: seal.headers(&outcome.headers)?,
                body: outcome
                    .whole()
                    .map(|body| column("response_body", body))
                    .transpose()?,
                completed_at: at.as_ms(),
            }),
            State::Held(_)
            | State::InDoubt { .. }
            | State::Free
            | State::Expired
            | State::Erased => None,
        };
        Ok(Self {
            step,
            write,
            asked,
            request,
            response,
        })
    }

    /// How much memory the move holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        let packed = |column: Option<&Column>| column.map_or(0, |column| column.0.len());
        let response = self.response.as_ref();
        size_of::<Self>()
            + weight(&self.step)
            + packed(self.request.as_ref())
            + packed(response.and_then(|response| response.body.as_ref()))
            + response.map_or(0, |response| response.headers.len())
    }
}

/// How many bytes of bodies a move carries.
pub(super) fn weight(step: &Move) -> usize {
    let response = match &step.next.state {
        State::Settled { outcome, .. } => outcome.whole().map_or(0, Bytes::len),
        State::Held(_) | State::InDoubt { .. } | State::Free | State::Expired | State::Erased => 0,
    };
    response + step.next.request.body.as_ref().map_or(0, Bytes::len)
}
