//! What can be switched on for every call.

use std::sync::Arc;

use rustls::ClientConfig;

use crate::api::{call::Call, tls::Tls};

/// The account that is verified; it may call MetaService.
pub(super) const ACCOUNT: (&str, &str) = ("bench", "password-of-the-bench");
/// `bench:password-of-the-bench`, as clients send it.
const BASIC: &str = "Basic YmVuY2g6cGFzc3dvcmQtb2YtdGhlLWJlbmNo";
const ADMIN: &str = "token-of-the-administrators";
const ADMIN_BEARER: &str = "Bearer token-of-the-administrators";
const ENGINES: &str = "token-of-the-engines";
const ENGINES_BEARER: &str = "Bearer token-of-the-engines";

const ADMIN_KEY: &str = "kvcm.service.admin_auth_token";

/// A switch. One more is one more variant, with its settings and what clients must know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    AccessLog,
    /// The page, which is read by nobody meanwhile.
    Metrics,
    /// Counting and timing each call.
    Counting,
    Tls,
    /// Tokens for engines and administrators.
    Bearer,
    /// Name and password, which the node remembers once it has verified them.
    Account,
}

/// What clients of a node must know.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// Set when the node speaks TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The `authorization` of calls of MetaService.
    pub(super) engine: Option<&'static str>,
    /// The `authorization` of admin calls, good for all others too.
    pub(super) admin: Option<&'static str>,
    /// Whether the node needs to be told of [`ACCOUNT`] first.
    pub(super) has_account: bool,
}

impl Switch {
    pub(super) const ALL: [Self; 6] = [
        Self::AccessLog,
        Self::Metrics,
        Self::Counting,
        Self::Tls,
        Self::Bearer,
        Self::Account,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AccessLog => "access log",
            Self::Metrics => "metrics page",
            Self::Counting => "counting calls",
            Self::Tls => "TLS",
            Self::Bearer => "bearer token",
            Self::Account => "account",
        }
    }

    /// The calls that it is measured with.
    pub(super) fn calls(self) -> &'static [Call] {
        match self {
            Self::Bearer => &[Call::ClusterInfo, Call::Register, Call::ListStorage],
            _ => &[Call::ClusterInfo, Call::Register],
        }
    }

    /// The configuration that has this one on and all others off.
    pub(super) fn on(self, tls: &Tls) -> Vec<(&'static str, String)> {
        let mut settings = Self::all_off();
        settings.extend(match self {
            Self::AccessLog => vec![("kvcm.logger.access_log", "true".to_owned())],
            Self::Metrics => vec![("kvcm.metrics.enable_prometheus", "true".to_owned())],
            Self::Counting => vec![("kvcm.metrics.count_calls", "true".to_owned())],
            Self::Tls => tls.settings(),
            Self::Bearer => vec![
                (ADMIN_KEY, ADMIN.to_owned()),
                ("kvcm.service.meta_auth_token", ENGINES.to_owned()),
            ],
            Self::Account => vec![
                (ADMIN_KEY, ADMIN.to_owned()),
                ("kvcm.service.enable_meta_auth", "true".to_owned()),
            ],
        });
        settings
    }

    /// The configuration without any: those that are on by default are switched off.
    pub(super) fn all_off() -> Vec<(&'static str, String)> {
        [
            "kvcm.logger.access_log",
            "kvcm.metrics.enable_prometheus",
            "kvcm.metrics.count_calls",
        ]
        .map(|key| (key, "false".to_owned()))
        .to_vec()
    }

    /// What clients must know of a node that has it on.
    pub(super) fn access(self, tls: &Tls) -> Access {
        let mut access = Access::default();
        match self {
            Self::AccessLog | Self::Metrics | Self::Counting => {}
            Self::Tls => access.tls = Some(tls.client()),
            Self::Bearer => {
                access.engine = Some(ENGINES_BEARER);
                access.admin = Some(ADMIN_BEARER);
            }
            Self::Account => {
                access.engine = Some(BASIC);
                access.admin = Some(ADMIN_BEARER);
                access.has_account = true;
            }
        }
        access
    }

    /// Whether it turns clients away that do not know of it.
    pub(super) fn refuses_strangers(self) -> bool {
        matches!(self, Self::Tls | Self::Bearer | Self::Account)
    }
}
