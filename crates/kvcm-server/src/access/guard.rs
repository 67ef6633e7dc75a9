//! The check before the routes of a port.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use http::HeaderMap;
use kvcm_registry::{Account, Role};

use super::{Credentials, Denied, Need, Passwords, Scope, Secret, Tokens};
use crate::config::AccessSettings;

/// Where accounts are looked up.
pub(crate) trait Accounts: Send + Sync {
    /// Looks for an account by its name.
    fn find(&self, user: &str) -> Found;
}

/// What is known of an account.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Here it is.
    Account(Arc<Account>),
    /// There is none.
    Nobody,
    /// This node does not lead, so it does not know.
    Unknowable,
}

/// Marks a request whose account this node could not look up. It gets what a node answers that
/// does not lead, and nothing else, even if the node has become the leader meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unverified;

/// Lets calls in, or not.
pub(crate) struct Guard {
    secret: Secret,
    tokens: Tokens,
    passwords: Passwords,
    accounts: Arc<dyn Accounts>,
    guards_data: bool,
}

/// How a call is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Whoever it is may do it.
    Verified,
    /// See [`Unverified`].
    Unverified,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// The guard that the configuration asks for; none when everybody may do everything.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn new(
        settings: &AccessSettings,
        accounts: Arc<dyn Accounts>,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        if settings.admin_tokens.is_empty() {
            return Ok(None);
        }
        let secret = Secret::new()?;
        Ok(Some(Arc::new(Self {
            tokens: Tokens::new(settings, &secret),
            secret,
            passwords: Passwords::new(),
            accounts,
            guards_data: settings.guards_data(),
        })))
    }

    /// Puts the guard before the routes of a port.
    pub(crate) fn protect(self: &Arc<Self>, scope: Scope, router: Router) -> Router {
        let guard = self.clone();
        router.layer(from_fn(move |request, next| {
            let guard = guard.clone();
            async move { guard.pass(scope, request, next).await }
        }))
    }

    async fn pass(&self, scope: Scope, mut request: Request, next: Next) -> Response {
        let need = scope.need(request.method(), request.uri().path());
        match self.check(need, request.headers()).await {
            Ok(Pass::Verified) => {}
            Ok(Pass::Unverified) => {
                request.extensions_mut().insert(Unverified);
            }
            Err(denied) => {
                tracing::debug!(path = request.uri().path(), ?denied, "call is not let in");
                return match scope {
                    Scope::Grpc => denied.grpc(),
                    _ => denied.http(),
                };
            }
        }
        next.run(request).await
    }

    /// Whether a call that needs `need` is let in.
    pub(crate) async fn check(&self, need: Need, headers: &HeaderMap) -> Result<Pass, Denied> {
        if need == Need::Nothing || (need == Need::Data && !self.guards_data) {
            return Ok(Pass::Verified);
        }
        let shown = Credentials::read(headers).map_err(|_| Denied::Malformed)?;
        let role = match shown.ok_or(Denied::Missing)? {
            Credentials::Token(token) => self
                .tokens
                .role(&token, &self.secret)
                .ok_or(Denied::Wrong)?,
            Credentials::Account { user, password } => {
                let account = match self.accounts.find(&user) {
                    Found::Account(account) => Some(account),
                    Found::Nobody => None,
                    // Without the registry a node tells where the leader is, and no more.
                    Found::Unknowable if need == Need::Data => return Ok(Pass::Unverified),
                    Found::Unknowable => return Err(Denied::NotLeader),
                };
                let hash = account
                    .as_ref()
                    .and_then(|account| account.password.as_ref());
                let is_right = self.passwords.matches(&self.secret, &user, &password, hash);
                match (is_right.await.map_err(|_| Denied::Busy)?, account) {
                    (true, Some(account)) => account.role,
                    _ => return Err(Denied::Wrong),
                }
            }
        };
        match (need, role) {
            (Need::Admin, Role::User) => Err(Denied::Forbidden),
            _ => Ok(Pass::Verified),
        }
    }
}
