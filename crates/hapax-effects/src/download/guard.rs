//! Which addresses are asked: public ones over http or https, unless the operator allows the others.
//! A name is resolved once per connection, every address it has is checked, and only checked ones are used.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::error::{Code, Error};

/// Decides which URLs and addresses are asked.
///
/// ```
/// use hapax_effects::download::{Code, Guard};
///
/// let guard = Guard::public_only();
/// assert!(guard.url("https://example.org/paper.pdf").is_ok());
///
/// // The refusals: however it is written, this is the machine itself.
/// for url in ["http://127.0.0.1/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]/", "file:///etc/passwd"] {
///     assert!(guard.url(url).is_err(), "{url}");
/// }
/// assert_eq!(guard.url("http://0x7f.1/").unwrap_err().code(), Code::SsrfBlocked);
/// assert!(Guard::allow_private_addresses().url("http://127.0.0.1/").is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    private: bool,
}

impl Guard {
    /// Public addresses only.
    #[must_use]
    pub const fn public_only() -> Self {
        Self { private: false }
    }

    /// Every address, for a network of one's own.
    #[must_use]
    pub const fn allow_private_addresses() -> Self {
        Self { private: true }
    }

    /// The URL, if it may be asked as far as its text says. A host that is a name is checked when it is resolved.
    ///
    /// # Errors
    /// [`Code::BadUrl`] when it is no http or https URL, or holds a name or password; [`Code::SsrfBlocked`] when
    /// its host is an address that is not asked.
    pub fn url(&self, text: &str) -> Result<Url, Error> {
        let bad = |why: &str| Error::fatal(Code::BadUrl, format!("{text:.200}: {why}"));
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("only http and https are fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let why = "a URL must not hold a user name or password";
            return Err(Error::fatal(Code::BadUrl, why));
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(name)) if !name.is_empty() => return Ok(url),
            Some(Host::Domain(_)) | None => return Err(bad("it has no host")),
        };
        match self.address(address) {
            Ok(()) => Ok(url),
            Err(blocked) => {
                tracing::warn!(%address, "a download from this address is refused");
                Err(blocked.at(None))
            }
        }
    }

    /// Whether this address may be asked.
    ///
    /// # Errors
    /// [`Blocked`] when it is not a public one and only those are allowed.
    pub fn address(&self, address: IpAddr) -> Result<(), Blocked> {
        let is_public = match address {
            IpAddr::V4(address) => is_public_v4(address),
            IpAddr::V6(address) => is_public_v6(address),
        };
        if self.private || is_public {
            Ok(())
        } else {
            Err(Blocked)
        }
    }
}

/// The refusal of an address. It does not hold the address: it is told to callers, who could map a network with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked;

impl Blocked {
    /// The fault of a download from the host of this name, or from an address that the URL itself holds.
    pub(super) fn at(self, name: Option<&str>) -> Error {
        let text = match name {
            Some(name) => format!("{name}: {self}"),
            None => self.to_string(),
        };
        Error::fatal(Code::SsrfBlocked, text)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host has no public address; allow private addresses to fetch from it")
    }
}

impl std::error::Error for Blocked {}

/// What reqwest asks for addresses: all that a name has, or none if one of them is not asked.
impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = *self;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in found.iter().map(SocketAddr::ip) {
                if let Err(blocked) = guard.address(address) {
                    let host = name.as_str();
                    tracing::warn!(host, %address, "a download is refused: its host leads here");
                    return Err(blocked.into());
                }
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// IPv4 networks that are not asked: this network, private, shared, loopback, what Azure tells its machines, link-local,
/// protocol assignments, documentation, 6to4 relays, benchmarks, multicast, reserved.
const DENIED_V4: [(&str, u32); 17] = [
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("168.63.129.16", 32),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.0.2.0", 24),
    ("192.88.99.0", 24),
    ("192.168.0.0", 16),
    ("198.18.0.0", 15),
    ("198.51.100.0", 24),
    ("203.0.113.0", 24),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
    ("255.255.255.255", 32),
];

/// IPv6 networks that are not asked: unspecified, loopback and IPv4-compatible, IPv4-mapped, the two of NAT64,
/// discard and dummy, Teredo and protocol assignments, the two of documentation, 6to4, segment routing, unique local,
/// link-local, site-local, multicast.
const DENIED_V6: [(&str, u32); 16] = [
    ("::", 96),
    ("::ffff:0:0", 96),
    ("::ffff:0:0:0", 96),
    ("64:ff9b::", 96),
    ("64:ff9b:1::", 48),
    ("100::", 64),
    ("100:0:0:1::", 64),
    ("2001::", 23),
    ("2001:db8::", 32),
    ("2002::", 16),
    ("3fff::", 20),
    ("5f00::", 16),
    ("fc00::", 7),
    ("fe80::", 10),
    ("fec0::", 10),
    ("ff00::", 8),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !DENIED_V4.iter().any(|(network, bits)| {
        let network = Ipv4Addr::from_str(network).map_or(0, u32::from);
        let shift = 32 - bits;
        u32::from(address) >> shift == network >> shift
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    !DENIED_V6.iter().any(|(network, bits)| {
        let network = Ipv6Addr::from_str(network).map_or(0, u128::from);
        let shift = 128 - bits;
        u128::from(address) >> shift == network >> shift
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_of_the_tables_is_readable() {
        for (network, bits) in DENIED_V4 {
            assert!(
                Ipv4Addr::from_str(network).is_ok() && bits <= 32,
                "{network}"
            );
        }
        for (network, bits) in DENIED_V6 {
            assert!(
                Ipv6Addr::from_str(network).is_ok() && bits <= 128,
                "{network}"
            );
        }
    }

    #[test]
    fn addresses_that_are_not_public_are_not_asked() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "100.100.100.200",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.8.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "::168.63.129.16",
            "::ffff:168.63.129.16",
            "::ffff:0:168.63.129.16",
            "64:ff9b::168.63.129.16",
            "64:ff9b:1::1",
            "100::1",
            "100:0:0:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fd00:ec2::254",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert!(Guard::public_only().address(parsed).is_err(), "{address}");
            assert!(
                Guard::allow_private_addresses().address(parsed).is_ok(),
                "{address}"
            );
        }
    }

    #[test]
    fn public_addresses_are_asked() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "168.63.129.15",
            "168.63.129.17",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2003::1",
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert!(Guard::public_only().address(parsed).is_ok(), "{address}");
        }
    }

    #[test]
    fn hosts_are_read_as_browsers_read_them() {
        for (text, host) in [
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://017700000001/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://192.168.010.1/", "192.168.8.1"),
            ("http://①②⑦.0.0.1/", "127.0.0.1"),
            ("http://[::1]/", "[::1]"),
            ("http://[::ffff:10.0.0.1]/", "[::ffff:a00:1]"),
            ("http:\\\\127.0.0.1\\", "127.0.0.1"),
        ] {
            let seen = Guard::allow_private_addresses().url(text).unwrap();
            assert_eq!(seen.host_str(), Some(host), "{text}");
            let refused = Guard::public_only().url(text).unwrap_err();
            assert_eq!(refused.code(), Code::SsrfBlocked, "{text}");
            let told = refused.to_string();
            assert!(told.starts_with("ssrf_blocked: "), "{told}");
            assert!(!told.contains(host), "{told}");
        }
    }

    #[test]
    fn other_schemes_and_credentials_are_refused() {
        for text in [
            "file:///etc/passwd",
            "ftp://example.org/a",
            "gopher://example.org/",
            "data:text/plain,x",
            "http://user@example.org/",
            "http://user:secret@example.org/",
            "http://:secret@example.org/",
            "https://",
            "example.org/a",
            "",
        ] {
            for guard in [Guard::public_only(), Guard::allow_private_addresses()] {
                let refused = guard.url(text).unwrap_err();
                assert_eq!(refused.code(), Code::BadUrl, "{text}");
                assert!(!refused.to_string().contains("secret"), "{refused}");
                assert!(!refused.is_retryable());
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_the_machine_itself_is_not_asked() {
        let name = || Name::from_str("localhost").unwrap();
        let refused = Guard::public_only().resolve(name()).await.err().unwrap();
        assert!(refused.downcast_ref::<Blocked>().is_some(), "{refused}");
        let allowed = Guard::allow_private_addresses().resolve(name()).await;
        assert!(allowed.unwrap().next().is_some());
    }
}
