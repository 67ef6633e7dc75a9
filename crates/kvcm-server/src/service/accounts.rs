//! AdminService: accounts.

use kvcm_proto::admin;
use kvcm_registry::{Account, PasswordHash, Role};
use tokio::sync::Semaphore;

use super::Services;
use crate::{
    http::CallContext,
    reply::{CallError, Code},
};

/// Longest password, in bytes.
const PASSWORD_MAX: usize = 1024;

/// Hashes passwords, few at a time: each takes 19 MiB and a core for some time.
#[derive(Debug)]
pub(super) struct Hashing(Semaphore);

impl Services {
    /// Adds an account.
    pub(crate) async fn add_account(
        &self,
        context: &CallContext,
        mut request: admin::AddAccountRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        // What is left is told apart by a hash that is kept, and would betray a password.
        let password = std::mem::take(&mut request.password);
        self.change(
            context,
            "AddAccount",
            &trace_id,
            request,
            async |reign, request| {
                let role = check(&request, &password)?;
                let account = Account {
                    user_name: request.user_name,
                    role,
                    password: Some(self.hashing.hash(password).await?),
                };
                let added = reign.registry.add_account(account).await;
                added.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// Deletes an account.
    pub(crate) async fn delete_account(
        &self,
        context: &CallContext,
        request: admin::DeleteAccountRequest,
    ) -> admin::CommonResponse {
        let trace_id = request.trace_id.clone();
        self.change(
            context,
            "DeleteAccount",
            &trace_id,
            request,
            async |reign, request| {
                if request.user_name.is_empty() {
                    return Err(CallError::missing(&["user_name"]));
                }
                let deleted = reign.registry.delete_account(&request.user_name).await;
                deleted.map_err(|error| reign.registry_error(&error))
            },
        )
        .await
    }

    /// All accounts, sorted by name, without their passwords.
    pub(crate) fn list_account(
        &self,
        context: &CallContext,
        request: admin::ListAccountRequest,
    ) -> admin::ListAccountResponse {
        self.read(context, &request.trace_id, |reign| {
            let accounts = reign.registry.accounts();
            let accounts = accounts.iter().map(|account| admin::Account {
                user_name: account.user_name.clone(),
                role: account.role.number(),
            });
            Ok(admin::ListAccountResponse {
                accounts: accounts.collect(),
                header: None,
            })
        })
    }
}

/// Whether the request can be an account; gives its role.
fn check(request: &admin::AddAccountRequest, password: &str) -> Result<Role, CallError> {
    let role = Role::from_number(request.role);
    let length = password.len();
    let fields = [
        ("user_name", request.user_name.is_empty()),
        ("password", length == 0 || length > PASSWORD_MAX),
        ("role", role.is_none()),
    ];
    let wrong: Vec<_> = fields.iter().filter(|field| field.1).map(|f| f.0).collect();
    match role {
        Some(role) if wrong.is_empty() => Ok(role),
        _ => {
            let mut error = CallError::missing(&wrong);
            error.message.push_str(&format!(
                ": a name, a password of 1 to {PASSWORD_MAX} bytes and the role ROLE_USER or \
                 ROLE_ADMIN are needed"
            ));
            Err(error)
        }
    }
}

impl Hashing {
    async fn hash(&self, password: String) -> Result<PasswordHash, CallError> {
        let failed = |error: &dyn std::fmt::Display| {
            CallError::new(Code::Internal, format!("cannot hash the password: {error}"))
        };
        let _permit = self.0.acquire().await.map_err(|error| failed(&error))?;
        let hashed = tokio::task::spawn_blocking(move || PasswordHash::of(&password)).await;
        hashed
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))
    }
}

impl Default for Hashing {
    fn default() -> Self {
        Self(Semaphore::new(2))
    }
}
