//! What protects the way to the database: nothing is needed on this machine, and off it a URL says which `sslmode` it
//! means. It reads URLs and connects to nothing.

use std::net::IpAddr;

use hapax_core::{Error, Kind};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::target;

/// What the URL of a database says about the way to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// The database is on this machine: a socket, or a loopback address.
    Local,
    /// `sslmode=disable`: plain text.
    Plain,
    /// `sslmode=prefer`: plain text where the server, or who is in between, says so, and nobody's certificate is looked at.
    Unverified,
    /// `sslmode=require`, `verify-ca` or `verify-full`: encrypted, and certificate and name are verified.
    Verified,
}

impl Protection {
    /// The protection that this URL asks for.
    ///
    /// ```
    /// use hapax_store::postgres::Protection;
    ///
    /// let verified = Protection::of("postgres://shop@db.example/shop?sslmode=verify-full")?;
    /// assert_eq!(verified, Protection::Verified);
    /// assert_eq!(Protection::of("postgres://shop@127.0.0.1/shop")?, Protection::Local);
    /// // The refusal: off this machine the mode is said.
    /// assert!(Protection::of("postgres://shop@db.example/shop").is_err());
    /// # Ok::<(), hapax_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when the URL leads off this machine without saying its `sslmode`, or is none.
    pub fn of(url: &str) -> Result<Self, Error> {
        let (config, given) = target::read(url)?;
        Self::read(&config, given.says_sslmode)
    }

    /// The protection of what was read of a URL. `says` tells whether it names an `sslmode`.
    pub(super) fn read(config: &Config, says: bool) -> Result<Self, Error> {
        if is_local(config) {
            return Ok(Self::Local);
        }
        match config.get_ssl_mode() {
            SslMode::Disable => Ok(Self::Plain),
            SslMode::Prefer if says => Ok(Self::Unverified),
            SslMode::Prefer => Err(Error::new(Kind::Unsafe, "reading the database URL").because(
                "it leads off this machine and does not say its sslmode\n\
                 hint: add sslmode=verify-full, which checks the server's certificate and name; or, on purpose, \
                 sslmode=require or sslmode=disable",
            )),
            _ => Ok(Self::Verified),
        }
    }
}

/// Whether every address that the driver may connect to is on this machine.
fn is_local(config: &Config) -> bool {
    let host = |host: &Host| match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse().is_ok_and(|address| is_loopback(&address))
        }
        Host::Unix(_) => true,
    };
    config.get_hosts().iter().all(host) && config.get_hostaddrs().iter().all(is_loopback)
}

fn is_loopback(address: &IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Option<Protection> = None;

    #[test]
    fn off_this_machine_the_mode_is_said() {
        use Protection::{Local, Plain, Unverified, Verified};
        for (rest, expected) in [
            ("127.0.0.1/d", Some(Local)),
            ("127.8.9.1:5432/d", Some(Local)),
            ("[::1]:5432/d", Some(Local)),
            ("[::ffff:127.0.0.1]/d", Some(Local)),
            ("localhost/d", Some(Local)),
            ("LocalHost:1/d", Some(Local)),
            ("localhost,127.0.0.1:5433/d", Some(Local)),
            ("%2Fvar%2Frun%2Fpostgresql/d", Some(Local)),
            ("/d?host=/var/run/postgresql", Some(Local)),
            ("127.0.0.1/d?sslmode=require", Some(Local)),
            ("db.example/d", NO),
            ("10.0.0.1/d", NO),
            ("[fd00::1]/d", NO),
            ("localhost.example/d", NO),
            ("127.0.0.1.example/d", NO),
            ("0.0.0.0/d", NO),
            ("2130706433/d", NO),
            ("localhost,db.example/d", NO),
            ("db.example,localhost/d", NO),
            ("localhost/d?host=db.example", NO),
            ("/d?host=db.example", NO),
            ("localhost/d?hostaddr=10.0.0.1", NO),
            ("db.example/d?hostaddr=127.0.0.1", NO),
            ("db.example/d?application_name=sslmode", NO),
            ("sslmode:sslmode@db.example/sslmode", NO),
            ("db.example/d?sslmode=disable", Some(Plain)),
            ("db.example/d?sslmode=prefer", Some(Unverified)),
            ("db.example/d?sslmode=require", Some(Verified)),
            ("db.example/d?sslmode=verify-ca", Some(Verified)),
            ("localhost,db.example/d?sslmode=verify-full", Some(Verified)),
            (
                "u:p%40ss@db.example/d?connect_timeout=1&sslmode=verify-full",
                Some(Verified),
            ),
        ] {
            let url = format!("postgres://{rest}");
            assert_eq!(Protection::of(&url).ok(), expected, "{url}");
        }
        for (pairs, expected) in [
            ("host=db.example user=u", NO),
            ("host=db.example sslmode=require", Some(Verified)),
            ("host=localhost user=u", Some(Local)),
        ] {
            assert_eq!(Protection::of(pairs).ok(), expected, "{pairs}");
        }
    }

    #[test]
    fn the_refusal_says_what_to_write_and_not_the_password() {
        let error = Protection::of("postgres://u:s3cret@db.example/d").unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains("hint: add sslmode=verify-full"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}
