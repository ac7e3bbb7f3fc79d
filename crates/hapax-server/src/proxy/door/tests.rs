//! What the door lets in, and as whose.

use super::*;

fn admitted(rules: &Rules, request: http::request::Builder) -> Result<Parts, String> {
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    match rules.admit(&mut parts) {
        Ok(()) => Ok(parts),
        Err(problem) => Err(problem.code().to_owned()),
    }
}

fn any() -> Rules {
    Rules {
        hosts: Vec::new(),
        tenant: TenantFrom::Nothing,
    }
}

fn asked(uri: &str) -> http::request::Builder {
    http::Request::builder().uri(uri)
}

#[test]
fn only_a_path_is_a_target() {
    let refused = Err("bad_target".to_owned());
    let code = |request| admitted(&any(), request).map(drop);
    assert_eq!(code(asked("/a?b").header("host", "h")), Ok(()));
    assert_eq!(
        code(asked("http://evil.example/a").header("host", "h")),
        refused
    );
    assert_eq!(
        code(
            asked("evil.example:443")
                .method("CONNECT")
                .header("host", "h")
        ),
        refused
    );
    assert_eq!(
        code(asked("*").method("OPTIONS").header("host", "h")),
        Ok(())
    );
    assert_eq!(code(asked("*").method("POST").header("host", "h")), refused);
    assert_eq!(code(asked("/a")), refused, "HTTP/1.1 needs a host");
    assert_eq!(code(asked("/a").version(Version::HTTP_10)), Ok(()));
    assert_eq!(
        code(asked("/a").header("host", "a").header("host", "a")),
        refused
    );
    for host in ["me@h", "a b", "h/x"] {
        assert_eq!(code(asked("/a").header("host", host)), refused, "{host}");
    }
}

#[test]
fn http2_says_its_host_in_the_target_and_nowhere_else() {
    let two = |uri| asked(uri).version(Version::HTTP_2);
    let parts = admitted(&any(), two("http://shop.example:1/a?b")).unwrap();
    assert_eq!(parts.headers[HOST], "shop.example:1");
    assert_eq!(parts.uri, "/a?b");
    assert!(
        admitted(
            &any(),
            two("http://shop.example/a").header("host", "evil.example")
        )
        .is_err()
    );
    assert!(
        admitted(
            &any(),
            two("http://shop.example/a").header("host", "Shop.Example")
        )
        .is_ok()
    );
}

#[test]
fn a_foreign_host_is_refused_where_hosts_are_named() {
    let rules = Rules {
        hosts: vec!["shop.example".to_owned(), "127.0.0.1:80".to_owned()],
        tenant: TenantFrom::Nothing,
    };
    for (host, expected) in [
        ("shop.example", true),
        ("SHOP.example:8089", true),
        ("127.0.0.1:80", true),
        ("127.0.0.1:81", false),
        ("evil.example", false),
    ] {
        assert_eq!(
            admitted(&rules, asked("/").header("host", host)).is_ok(),
            expected,
            "{host}"
        );
    }
    assert!(admitted(&rules, asked("/").version(Version::HTTP_10)).is_err());
}

#[test]
fn a_writing_request_names_its_tenant_where_it_must() {
    let rules = Rules {
        hosts: Vec::new(),
        tenant: TenantFrom::Header(HeaderName::from_static("x-tenant-id")),
    };
    let post = || asked("/").method("POST").header("host", "h");
    let id = "11111111-1111-4111-8111-111111111111";
    let parts = admitted(&rules, post().header("x-tenant-id", id)).unwrap();
    assert_eq!(parts.extensions.get::<Tenant>().unwrap().to_string(), id);
    for wrong in [
        post(),
        post().header("x-tenant-id", "default"),
        post().header("x-tenant-id", id).header("x-tenant-id", id),
    ] {
        assert_eq!(admitted(&rules, wrong).err().unwrap(), "tenant_required");
    }
    assert!(
        admitted(&rules, asked("/").header("host", "h")).is_ok(),
        "reading needs none"
    );
}
