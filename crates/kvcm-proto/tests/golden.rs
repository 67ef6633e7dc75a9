//! Every recorded message of the protocol decodes, prints, parses and encodes back.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::collections::BTreeMap;

use kvcm_proto::{admin, json, meta};
use prost::{Message, Name};
use serde_json::Value;

/// A message in both its forms.
#[derive(serde::Deserialize)]
struct Row {
    message: String,
    variant: String,
    hex: String,
    json: Value,
}

type Check = fn(&Row);

/// The types of the given messages, by full name.
macro_rules! checks {
    ($($package:ident::$message:ident,)*) => {
        BTreeMap::from([$((
            <$package::$message>::full_name(),
            check::<$package::$message> as Check,
        )),*])
    };
}

#[test]
fn every_recorded_message_decodes_prints_parses_and_encodes_back() {
    let checks = checks![
        meta::BlockMask,
        meta::BoolMasksType,
        meta::CacheLocation,
        meta::CommonResponse,
        meta::CommonResponseHeader,
        meta::FinishWriteCacheRequest,
        meta::GetCacheLocationRequest,
        meta::GetCacheLocationResponse,
        meta::GetCacheMetaRequest,
        meta::GetCacheMetaResponse,
        meta::GetInstanceInfoRequest,
        meta::GetInstanceInfoResponse,
        meta::InstanceInfo,
        meta::LocalStorageSpec,
        meta::LocationSpec,
        meta::LocationSpecGroup,
        meta::LocationSpecInfo,
        meta::ModelDeployment,
        meta::MooncakeStorageSpec,
        meta::NfsStorageSpec,
        meta::RegisterInstanceRequest,
        meta::RegisterInstanceResponse,
        meta::RemoveCacheRequest,
        meta::StartWriteCacheRequest,
        meta::StartWriteCacheResponse,
        meta::Status,
        meta::StorageConfig,
        meta::TairMemPoolStorageSpec,
        meta::ThreeFsStorageSpec,
        meta::TrimCacheRequest,
        meta::VcnsThreeFsStorageSpec,
        admin::Account,
        admin::AddAccountRequest,
        admin::AddStorageRequest,
        admin::BlockMask,
        admin::BoolMasksType,
        admin::CacheConfig,
        admin::CacheLocation,
        admin::CacheReclaimStrategy,
        admin::CheckHealthRequest,
        admin::CheckHealthResponse,
        admin::CommonResponse,
        admin::CommonResponseHeader,
        admin::ConfigSnapShotResponse,
        admin::CreateInstanceGroupRequest,
        admin::DeleteAccountRequest,
        admin::DisableStorageRequest,
        admin::EnableStorageRequest,
        admin::GenConfigSnapshotRequest,
        admin::GetCacheMetaRequest,
        admin::GetCacheMetaResponse,
        admin::GetInstanceGroupRequest,
        admin::GetInstanceGroupResponse,
        admin::GetInstanceInfoRequest,
        admin::GetInstanceInfoResponse,
        admin::GetLeaderElectorConfigRequest,
        admin::GetLeaderElectorConfigResponse,
        admin::GetManagerClusterInfoRequest,
        admin::GetManagerClusterInfoResponse,
        admin::GetMetricsRequest,
        admin::GetMetricsResponse,
        admin::InstanceGroup,
        admin::InstanceGroupQuota,
        admin::InstanceInfo,
        admin::LeaderDemoteRequest,
        admin::ListAccountRequest,
        admin::ListAccountResponse,
        admin::ListInstanceInfoRequest,
        admin::ListInstanceInfoResponse,
        admin::ListStorageRequest,
        admin::ListStorageResponse,
        admin::LoadConfigSnapshotRequest,
        admin::LocalStorageSpec,
        admin::LocationSpec,
        admin::LocationSpecGroup,
        admin::LocationSpecInfo,
        admin::MetaCachePolicyConfig,
        admin::MetaIndexerConfig,
        admin::MetaStorageBackendConfig,
        admin::MetricValue,
        admin::MetricsData,
        admin::MetricsTag,
        admin::ModelDeployment,
        admin::MooncakeStorageSpec,
        admin::NfsStorageSpec,
        admin::QuotaConfig,
        admin::RegisterInstanceRequest,
        admin::RemoveCacheRequest,
        admin::RemoveInstanceGroupRequest,
        admin::RemoveInstanceRequest,
        admin::RemoveStorageRequest,
        admin::Status,
        admin::StorageConfig,
        admin::SystemStorageConfig,
        admin::TairMemPoolStorageSpec,
        admin::ThreeFsStorageSpec,
        admin::TriggerStrategy,
        admin::UpdateInstanceGroupRequest,
        admin::UpdateLeaderElectorConfigRequest,
        admin::UpdateLoggerRequest,
        admin::UpdateStorageRequest,
        admin::VcnsThreeFsStorageSpec,
    ];
    let rows: Vec<Row> = include_str!("golden.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 218);
    for row in &rows {
        // No recorded message is undeclared.
        checks[&row.message](row);
    }
}

fn check<M>(row: &Row)
where
    M: Message + Name + Default + PartialEq + std::fmt::Debug,
{
    let what = format!("{} {}", row.message, row.variant);
    let bytes = bytes(&row.hex);
    let message = M::decode(bytes.as_slice()).unwrap();

    let printed = json::to_json(&message).unwrap();
    let value: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(value, row.json, "{what}");
    assert_eq!(
        printed.len(),
        value.to_string().len(),
        "{what}: white space"
    );

    for form in [row.json.clone(), camel_case(&row.json)] {
        let parsed: M = json::from_json(form.to_string().as_bytes()).unwrap();
        assert_eq!(parsed, message, "{what}: {form}");
        assert_eq!(parsed.encode_to_vec(), bytes, "{what}: {form}");
    }
}

/// The same with names as `lowerCamelCase`.
fn camel_case(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let mut camel = String::new();
                for part in name.split('_') {
                    match part.chars().next() {
                        Some(first) if !camel.is_empty() => {
                            camel.push(first.to_ascii_uppercase());
                            camel.push_str(&part[first.len_utf8()..]);
                        }
                        _ => camel.push_str(part),
                    }
                }
                (camel, camel_case(value))
            })
            .collect(),
        Value::Array(values) => values.iter().map(camel_case).collect(),
        other => other.clone(),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
