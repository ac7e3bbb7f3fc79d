//! Where the database is and how to reach it: the URL, its TLS and its time-outs. It never shows the URL.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Error, Kind};
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault;
use super::protection::Protection;
use super::speech::Speech;

const READING: &str = "reading the database URL";

/// The stream a connection runs over.
pub(super) type Wire =
    Connection<Socket, <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream>;

/// Where the database is and how to reach it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    pub(super) connect_timeout: Duration,
    pub(super) speech: Speech,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl Target {
    /// Reads `postgres://…`. Besides what libpq's short list knows it takes `sslrootcert`, and `pool_mode=transaction`
    /// for a URL that leads to a pooler in that mode.
    ///
    /// `sslmode=prefer`, the default, encrypts if the server can and, as in libpq, does not look at its
    /// certificate; off this machine it has to be said, like any other. `require`, `verify-ca` and `verify-full` all verify
    /// certificate and name.
    pub(super) fn parse(url: &str, connect_timeout: Duration) -> Result<Self, Error> {
        let (mut config, given) = read(url)?;
        Protection::read(&config, given.says_sslmode)?;
        let speech = match given.pooled.as_deref() {
            None | Some("session") => Speech::Own,
            Some("transaction") => Speech::Borrowed(Arc::default()),
            Some(_) => {
                let why = "pool_mode is session or transaction";
                return Err(Error::new(Kind::Unsafe, READING).because(why));
            }
        };
        config
            .connect_timeout(connect_timeout)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(30))
            // A standby may lag behind, and reads must see every committed write.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("hapax");
        }
        let tls = MakeRustlsConnect::new(tls(config.get_ssl_mode(), given.root.as_deref())?);
        Ok(Self {
            config,
            tls,
            connect_timeout,
            speech,
        })
    }

    /// Opens a connection. Nothing happens on it until somebody polls the wire.
    pub(super) async fn connect(&self) -> Result<(Client, Wire), Error> {
        let operation = "connecting to PostgreSQL";
        // The configured time-out is for the socket only; a server that accepts and is silent is bounded here.
        match tokio::time::timeout(self.connect_timeout, self.config.connect(self.tls.clone()))
            .await
        {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => {
                Err(Error::new(Kind::Unavailable, operation).because(fault::text(&error)))
            }
            Err(_) => Err(fault::timed_out(
                operation,
                Kind::Unavailable,
                self.connect_timeout,
            )),
        }
    }
}

/// The parts of a URL that the driver does not know, or does not tell.
#[derive(Default)]
pub(super) struct Given {
    root: Option<String>,
    pooled: Option<String>,
    /// Whether it names an `sslmode`.
    pub(super) says_sslmode: bool,
}

/// What the driver reads of a URL, and what it does not.
pub(super) fn read(url: &str) -> Result<(Config, Given), Error> {
    let (url, given) = ours(url);
    // The parser's own message may quote a piece of the password: it is not passed on.
    let config = url.parse().map_err(|_| {
        Error::new(Kind::Unsafe, READING).because(
            "it is not a PostgreSQL URL; use postgres://user:password@host:port/database \
             and percent-encode special characters in the password",
        )
    })?;
    Ok((config, given))
}

/// Takes the parameters out of the URL that the driver does not know.
fn ours(url: &str) -> (String, Given) {
    let query = url
        .rfind('@')
        .and_then(|at| url[at..].find('?').map(|mark| at + mark))
        .or_else(|| url.find('?'));
    let mut given = Given::default();
    let Some(mark) = query else {
        return (url.to_owned(), given);
    };
    let kept: Vec<&str> = url[mark + 1..]
        .split('&')
        .filter_map(|pair| match pair.split_once('=') {
            Some(("sslmode", mode)) => {
                given.says_sslmode = true;
                match mode {
                    "verify-ca" | "verify-full" => Some("sslmode=require"),
                    _ => Some(pair),
                }
            }
            Some(("sslrootcert", path)) => {
                given.root = Some(path.replace("%2F", "/").replace("%2f", "/"));
                None
            }
            Some(("pool_mode", mode)) => {
                given.pooled = Some(mode.to_owned());
                None
            }
            _ => Some(pair),
        })
        .collect();
    let kept = kept.join("&");
    let mark_or_not = if kept.is_empty() { "" } else { "?" };
    (format!("{}{mark_or_not}{kept}", &url[..mark]), given)
}

fn tls(mode: SslMode, root: Option<&str>) -> Result<ClientConfig, Error> {
    let refuse =
        |why: String| Error::new(Kind::Unsafe, "setting up TLS for PostgreSQL").because(why);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        SslMode::Disable | SslMode::Prefer => Arc::new(Unverified(provider.clone())),
        _ => {
            let roots = match root {
                Some(path) => CertificateDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| refuse(format!("sslrootcert: {error}")))?,
                None => Vec::new(),
            };
            let platform =
                rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider.clone());
            Arc::new(platform.map_err(|error| refuse(error.to_string()))?)
        }
    };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| refuse(error.to_string()))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Encryption without knowing whose: what `prefer` means, where plain text would be accepted too.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifying_modes_of_libpq_are_understood() {
        let (url, given) = ours(
            "postgres://u:p@h/db?sslmode=verify-full&sslrootcert=%2Fetc/ca.pem&application_name=x",
        );
        assert_eq!(given.pooled, None);
        assert_eq!(
            url,
            "postgres://u:p@h/db?sslmode=require&application_name=x"
        );
        assert_eq!(given.root.as_deref(), Some("/etc/ca.pem"));
    }

    #[test]
    fn a_url_of_a_pooler_says_so() {
        let parse = |mode| {
            Target::parse(
                &format!("postgres://u@localhost/db?pool_mode={mode}&application_name=x"),
                Duration::from_secs(1),
            )
        };
        assert!(!parse("transaction").unwrap().speech.is_own());
        assert!(parse("session").unwrap().speech.is_own());
        let error = parse("statement").unwrap_err();
        assert!(
            error.to_string().contains("session or transaction"),
            "{error}"
        );
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_shown() {
        for url in [
            "postgres://u:s3cret?x@h/db?s3cret=1",
            "postgres://u:s3cret@h:port/db",
            "s3cret",
        ] {
            let error = Target::parse(url, Duration::from_secs(1)).unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("s3cret"),
                "{error:?}"
            );
        }
    }
}
