//! Who is let in, for every kind of credentials.

use std::{collections::BTreeMap, sync::Arc};

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version, password_hash::Salt};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};
use kvcm_registry::{Account, PasswordHash, Role};

use super::{guard::Pass, *};
use crate::config::{AccessSettings, Token};

/// A hash with the least parameters there are.
pub(super) fn quick_hash(password: &str) -> PasswordHash {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = Salt::from_b64("c2FsdHNhbHQ").unwrap();
    let hash = argon2.hash_password(password.as_bytes(), salt).unwrap();
    hash.to_string().parse().unwrap()
}

/// The accounts of a leader; none: a follower's.
struct Fixed(Option<BTreeMap<String, Arc<Account>>>);

impl Accounts for Fixed {
    fn find(&self, user: &str) -> Found {
        match &self.0 {
            None => Found::Unknowable,
            Some(accounts) => accounts
                .get(user)
                .cloned()
                .map_or(Found::Nobody, Found::Account),
        }
    }
}

fn guard(leads: bool, enable_meta_auth: bool) -> Arc<Guard> {
    let account = |name: &str, role, password: Option<&str>| {
        let account = Account {
            user_name: name.to_owned(),
            role,
            password: password.map(quick_hash),
        };
        (name.to_owned(), Arc::new(account))
    };
    let accounts = BTreeMap::from([
        account("root", Role::Admin, Some("r00t")),
        account("ann", Role::User, Some("pass")),
        account("ghost", Role::Admin, None),
    ]);
    let settings = AccessSettings {
        admin_tokens: vec![Token::new("admin-1"), Token::new("admin-2")],
        meta_tokens: vec![Token::new("engine")],
        enable_meta_auth,
    };
    let accounts = Arc::new(Fixed(leads.then_some(accounts)));
    Guard::new(&settings, accounts).unwrap().unwrap()
}

fn headers(value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !value.is_empty() {
        let value = HeaderValue::from_str(value).unwrap();
        headers.insert(header::AUTHORIZATION, value);
    }
    headers
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

#[tokio::test]
async fn a_leader_knows_tokens_and_accounts_and_their_roles() {
    let guard = guard(true, true);
    let ok = Ok(Pass::Verified);
    let forbidden = Err(Denied::Forbidden);
    for (shown, look, data, admin) in [
        (
            "".to_owned(),
            Err(Denied::Missing),
            Err(Denied::Missing),
            Err(Denied::Missing),
        ),
        (
            "nonsense".to_owned(),
            Err(Denied::Malformed),
            Err(Denied::Malformed),
            Err(Denied::Malformed),
        ),
        (
            "Bearer admin".to_owned(),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
        ),
        (
            "Bearer admin-1,admin-2".to_owned(),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
        ),
        ("Bearer admin-1".to_owned(), ok, ok, ok),
        ("Bearer admin-2".to_owned(), ok, ok, ok),
        ("Bearer engine".to_owned(), ok, ok, forbidden),
        (basic("root:r00t"), ok, ok, ok),
        (basic("ann:pass"), ok, ok, forbidden),
        (
            basic("ann:r00t"),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
        ),
        (
            basic("ghost:"),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
        ),
        (
            basic("nobody:x"),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
            Err(Denied::Wrong),
        ),
    ] {
        let headers = headers(&shown);
        for (need, expected) in [(Need::Look, look), (Need::Data, data), (Need::Admin, admin)] {
            assert_eq!(
                guard.check(need, &headers).await,
                expected,
                "{shown} {need:?}"
            );
        }
        assert_eq!(guard.check(Need::Nothing, &headers).await, ok);
    }
}

#[tokio::test]
async fn a_follower_knows_tokens_and_lets_accounts_only_ask_where_the_leader_is() {
    let guard = guard(false, true);
    let account = headers(&basic("ann:whatever"));
    assert_eq!(
        guard.check(Need::Data, &account).await,
        Ok(Pass::Unverified)
    );
    assert_eq!(
        guard.check(Need::Admin, &account).await,
        Err(Denied::NotLeader)
    );
    assert_eq!(
        guard.check(Need::Look, &account).await,
        Err(Denied::NotLeader)
    );
    let token = headers("Bearer admin-1");
    assert_eq!(guard.check(Need::Admin, &token).await, Ok(Pass::Verified));
    assert_eq!(
        guard.check(Need::Data, &headers("")).await,
        Err(Denied::Missing)
    );
}

#[tokio::test]
async fn data_is_open_unless_it_is_guarded() {
    let settings = AccessSettings {
        admin_tokens: vec![Token::new("admin")],
        ..AccessSettings::default()
    };
    let guard = Guard::new(&settings, Arc::new(Fixed(None)))
        .unwrap()
        .unwrap();
    assert_eq!(
        guard.check(Need::Data, &headers("")).await,
        Ok(Pass::Verified)
    );
    assert_eq!(
        guard.check(Need::Admin, &headers("")).await,
        Err(Denied::Missing)
    );
    let open = Guard::new(&AccessSettings::default(), Arc::new(Fixed(None))).unwrap();
    assert!(open.is_none(), "nothing is checked unless it is asked for");
}

#[test]
fn refusals_are_those_of_the_predecessor() {
    for (denied, status, challenge) in [
        (Denied::Missing, 401, r#"Bearer realm="kvcm""#),
        (
            Denied::Malformed,
            401,
            r#"Bearer realm="kvcm", error="invalid_request""#,
        ),
        (
            Denied::Wrong,
            401,
            r#"Bearer realm="kvcm", error="invalid_token""#,
        ),
        (
            Denied::Forbidden,
            403,
            r#"Bearer realm="kvcm", error="insufficient_scope""#,
        ),
    ] {
        let response = denied.http();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], challenge);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    }
    assert_eq!(Denied::Busy.http().status(), 503);
    assert_eq!(Denied::Missing.grpc().headers()["grpc-status"], "16");
    assert_eq!(Denied::Forbidden.grpc().headers()["grpc-status"], "7");
}
