//! Rules that concern more than one key.

use super::{Loaded, Mistake, Token};
use crate::traces;

const LEASE: &str = "kvcm.leader_elector.lease_ms";
const ADMIN_TOKEN: &str = "kvcm.service.admin_auth_token";
const META_TOKEN: &str = "kvcm.service.meta_auth_token";
const TLS_CERT: &str = "kvcm.service.tls_cert_file";
const TLS_KEY: &str = "kvcm.service.tls_key_file";
const TLS_CLIENT_CA: &str = "kvcm.service.tls_client_ca_file";
const OTLP: &str = "kvcm.tracing.otlp_endpoint";
const LOOP: &str = "kvcm.leader_elector.loop_interval_ms";

/// Checks keys against each other, but none of those in `wrong`. Adds warnings to `loaded`.
pub(super) fn across_keys(loaded: &mut Loaded, wrong: &[&str]) -> Vec<Mistake> {
    let mut mistakes = ports(loaded, wrong);
    mistakes.extend(tls(loaded));
    mistakes.extend(tracing(loaded));
    if !wrong.contains(&ADMIN_TOKEN) {
        mistakes.extend(access(loaded));
    }
    if !wrong.contains(&LEASE) && !wrong.contains(&LOOP) {
        mistakes.extend(loop_interval(loaded));
    }
    mistakes
}

/// Guarding the data alone would be in vain: everybody could add an account. Adds warnings to
/// `loaded`.
fn access(loaded: &mut Loaded) -> Option<Mistake> {
    let settings = &loaded.config.access;
    if settings.guards_data() && settings.admin_tokens.is_empty() {
        let problem = "expected a token, because MetaService needs credentials: without it \
                       everybody could add an account for it";
        return Some(loaded.mistake(ADMIN_TOKEN, problem));
    }
    let is_short = |token: &Token| token.reveal().len() < 16;
    for (key, tokens) in [
        (ADMIN_TOKEN, &settings.admin_tokens),
        (META_TOKEN, &settings.meta_tokens),
    ] {
        if tokens.iter().any(is_short) {
            let warning = format!("{key}: a token of less than 16 characters can be guessed");
            loaded.warnings.push(warning);
        }
    }
    if !settings.admin_tokens.is_empty() && loaded.config.service.tls_cert_file.is_none() {
        let note =
            format!("{ADMIN_TOKEN} is set and {TLS_CERT} is not: credentials travel in plain text");
        loaded.notes.push(note);
    }
    None
}

/// A certificate is of no use without its key, nor either of the other files without both.
fn tls(loaded: &Loaded) -> Vec<Mistake> {
    let service = &loaded.config.service;
    let (cert, key) = (&service.tls_cert_file, &service.tls_key_file);
    let missing =
        |key, of: &str| loaded.mistake(key, format!("expected a path, because {of} is set"));
    match (cert, key, &service.tls_client_ca_file) {
        (Some(_), None, _) => vec![missing(TLS_KEY, TLS_CERT)],
        (None, Some(_), _) => vec![missing(TLS_CERT, TLS_KEY)],
        (None, None, Some(_)) => vec![missing(TLS_CERT, TLS_CLIENT_CA)],
        _ => Vec::new(),
    }
}

/// Spans that nobody would ever see are a mistake, not a wish that is forgotten in silence.
fn tracing(loaded: &Loaded) -> Option<Mistake> {
    let is_asked = loaded.config.tracing.otlp_endpoint.is_some();
    (is_asked && !traces::BUILT)
        .then(|| loaded.mistake(OTLP, "this build has no OTLP: build with --features otlp"))
}

/// A lease must survive a few lost renewals.
fn loop_interval(loaded: &mut Loaded) -> Option<Mistake> {
    let lease = loaded.config.elector.lease.as_millis();
    let interval = loaded.config.elector.loop_interval.as_millis();
    if interval * 4 > lease {
        let limit = lease / 4;
        let origin = loaded.origin(LEASE);
        return Some(loaded.mistake(
            LOOP,
            format!("expected at most {limit}, a quarter of {LEASE} = `{lease}` ({origin})"),
        ));
    }
    if interval * 10 > lease {
        loaded.warnings.push(format!(
            "{LOOP} = `{interval}` ({}): better at most {}, a tenth of {LEASE}; few lost renewals \
             can cost the leadership",
            loaded.origin(LOOP),
            lease / 10
        ));
    }
    None
}

/// Each port is its own, but the two gRPC services may share one.
fn ports(loaded: &Loaded, wrong: &[&str]) -> Vec<Mistake> {
    let service = &loaded.config.service;
    let admin_rpc_port = match service.admin_rpc_port {
        shared if shared == service.rpc_port => 0,
        own => own,
    };
    let ports = [
        ("kvcm.service.rpc_port", service.rpc_port),
        ("kvcm.service.http_port", service.http_port),
        ("kvcm.service.admin_rpc_port", admin_rpc_port),
        ("kvcm.service.admin_http_port", service.admin_http_port),
    ];
    let mut mistakes = Vec::new();
    for (index, (key, port)) in ports.iter().enumerate() {
        let same = |(other, taken): &&(&str, u16)| {
            taken == port && *port != 0 && !wrong.contains(other) && !wrong.contains(key)
        };
        if let Some((other, _)) = ports[..index].iter().find(same) {
            let origin = loaded.origin(other);
            mistakes.push(loaded.mistake(
                key,
                format!("expected a port of its own, but {other} ({origin}) has it"),
            ));
        }
    }
    mistakes
}
