//! Which calls change what operators are answerable for, and what of them may be told.

use kvcm_proto::json::to_json;
use prost::{Message, Name};
use serde_json::Value;

/// Admin calls that only read begin so.
const READING: [&str; 5] = ["Get", "List", "Check", "Gen", "Watch"];

/// What says which thing a call is about. Everything else of a request stays out of the log: names
/// cannot be secrets, addresses and passwords can.
const TOLD: [&str; 20] = [
    "storage_unique_name",
    "global_unique_name",
    "unique_name",
    "instance_group",
    "instance_group_name",
    "instance_id",
    "name",
    "user_name",
    "role",
    "version",
    "current_version",
    "module_name",
    "log_level",
    "campaign_delay_time_ms",
    "expected_epoch",
    "transfer_to",
    "pause",
    "paused",
    "api_name",
    "fault_type",
];

/// What the audit log tells of a request: `storage.global_unique_name=nfs_01`. None for a request
/// that changes nothing, or that engines send.
pub(crate) fn subject<Req: Message + Name>(request: &Req) -> Option<String> {
    let is_read = || READING.iter().any(|verb| Req::NAME.starts_with(verb));
    if Req::PACKAGE.ends_with(".meta") || is_read() {
        return None;
    }
    let json = to_json(request).ok()?;
    let json: Value = serde_json::from_slice(&json).ok()?;
    let mut told = Vec::new();
    tell("", &json, &mut told);
    Some(told.join(" "))
}

/// The request's own fields and those of its messages, one level deep.
fn tell(prefix: &str, json: &Value, told: &mut Vec<String>) {
    for (name, value) in json.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) if prefix.is_empty() => tell(&format!("{name}."), value, told),
            Value::String(text) if text.is_empty() || text == "0" => {}
            Value::String(_) | Value::Number(_) | Value::Bool(_)
                if TOLD.contains(&name.as_str()) =>
            {
                // As JSON, so that no name can pretend to be another field or line.
                told.push(format!("{prefix}{name}={value}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kvcm_proto::{admin, meta};

    use super::*;

    #[test]
    fn only_admin_calls_that_change_something_are_audited() {
        assert_eq!(subject(&admin::CheckHealthRequest::default()), None);
        assert_eq!(subject(&admin::GetMetricsRequest::default()), None);
        assert_eq!(subject(&meta::RegisterInstanceRequest::default()), None);
        assert_eq!(
            subject(&admin::LeaderDemoteRequest::default()).as_deref(),
            Some("")
        );
    }

    #[test]
    fn names_are_told_and_secrets_are_not() {
        let account = admin::AddAccountRequest {
            user_name: "ann \" x=\"y".to_owned(),
            password: "hunter2".to_owned(),
            ..Default::default()
        };
        let told = subject(&account).unwrap();
        assert!(told.contains(r#"user_name="ann \" x=\"y""#), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        let demote = admin::LeaderDemoteRequest {
            expected_epoch: Some(7),
            ..Default::default()
        };
        assert_eq!(subject(&demote).as_deref(), Some("expected_epoch=\"7\""));
    }
}
