//! Storages.

use kvcm_proto::admin::{self, storage_config::StorageSpec as Spec};
use kvcm_registry::{
    FileSpec, Hf3fsSpec, MooncakeSpec, PaceSpec, Storage, StorageSpec, StorageType, VcnsHf3fsSpec,
};

use crate::reply::{CallError, Code};

/// Media type of a PACE pool on SSD.
const MEDIA_SSD: i32 = 5;

/// A storage as the registry takes it, enabled.
///
/// # Errors
/// No storage, no settings, a kind that this server has nothing for, a kind that is not that of
/// the settings.
pub(crate) fn storage(config: Option<admin::StorageConfig>) -> Result<Storage, CallError> {
    let config = config.ok_or_else(|| CallError::missing(&["storage"]))?;
    let said = config.storage_type.unwrap_or_default();
    let spec = config.storage_spec;
    let spec = spec.ok_or_else(|| CallError::missing(&["storage.storage_spec"]))?;
    let spec = spec_of(spec, said)?;
    if said != 0 && said != spec.kind().number() {
        let kind = spec.kind();
        let message = format!(
            "missing or invalid fields: {{storage.storage_type}}: it is {said}, but storage_spec \
             describes a storage of type {kind} ({})",
            kind.number()
        );
        return Err(CallError::new(Code::InvalidArgument, message));
    }
    Ok(Storage {
        name: config.global_unique_name,
        is_available: true,
        check_when_open: config.check_storage_available_when_open,
        spec,
    })
}

fn spec_of(spec: Spec, said: i32) -> Result<StorageSpec, CallError> {
    let unsupported = |kind: &str, why: &str| {
        let message = format!("storages of kind {kind} are not supported: {why}");
        Err(CallError::new(Code::Unsupported, message))
    };
    Ok(match spec {
        Spec::Nfs(nfs) => StorageSpec::File(FileSpec {
            root_path: nfs.root_path,
            key_count_per_file: nfs.key_count_per_file,
        }),
        Spec::Threefs(mount) => StorageSpec::Hf3fs(Hf3fsSpec {
            cluster_name: mount.cluster_name,
            mountpoint: mount.mountpoint,
            root_dir: mount.root_dir,
            key_count_per_file: mount.key_count_per_file,
            touch_file_when_create: mount.touch_file_when_create,
        }),
        Spec::Vcnsthreefs(vcns) => StorageSpec::VcnsHf3fs(VcnsHf3fsSpec {
            mount: Hf3fsSpec {
                cluster_name: vcns.cluster_name,
                mountpoint: vcns.mountpoint,
                root_dir: vcns.root_dir,
                key_count_per_file: vcns.key_count_per_file,
                touch_file_when_create: vcns.touch_file_when_create,
            },
            remote_host: vcns.remote_host,
            remote_port: vcns.remote_port,
            meta_storage_uri: vcns.meta_storage_uri,
        }),
        Spec::Mooncake(mooncake) => StorageSpec::Mooncake(MooncakeSpec {
            local_hostname: mooncake.local_hostname,
            metadata_connstring: mooncake.metadata_connstring,
            protocol: mooncake.protocol,
            rdma_device: mooncake.rdma_device,
            master_server_entry: mooncake.master_service_entry,
        }),
        Spec::TairMemPool(pool) => {
            let spec = PaceSpec {
                domain: pool.domain,
                timeout: pool.timeout,
                enable_vipserver: pool.enable_vipserver,
                service_discovery_url: pool.service_discovery_url.unwrap_or_default(),
                media_type: pool.media_type.unwrap_or_default(),
            };
            match said == StorageType::PaceSsd.number() {
                true if spec.media_type == MEDIA_SSD => StorageSpec::PaceSsd(spec),
                true => {
                    let message = format!(
                        "missing or invalid fields: {{storage.tair_mem_pool.media_type}}: it is \
                         {}, a pool on SSD needs {MEDIA_SSD}",
                        spec.media_type
                    );
                    return Err(CallError::new(Code::InvalidArgument, message));
                }
                false => StorageSpec::Pace(spec),
            }
        }
        Spec::Local(_) => return unsupported("local", "it keeps nothing outside of its process"),
        Spec::Dummy(_) => return unsupported("dummy", "it keeps nothing"),
        Spec::EventReport(_) => {
            return unsupported("event_report", "this server takes no reports of engines");
        }
    })
}

/// A storage as the protocol shows it.
pub(crate) fn storage_config(storage: &Storage) -> admin::StorageConfig {
    // Fixed when the kind follows from the settings; only a pool on SSD looks like another one.
    let mut storage_type = None;
    let spec = match storage.spec.clone() {
        StorageSpec::File(file) => Some(Spec::Nfs(admin::NfsStorageSpec {
            root_path: file.root_path,
            key_count_per_file: file.key_count_per_file,
        })),
        StorageSpec::Hf3fs(mount) => Some(Spec::Threefs(admin::ThreeFsStorageSpec {
            cluster_name: mount.cluster_name,
            mountpoint: mount.mountpoint,
            root_dir: mount.root_dir,
            key_count_per_file: mount.key_count_per_file,
            touch_file_when_create: mount.touch_file_when_create,
        })),
        StorageSpec::VcnsHf3fs(vcns) => Some(Spec::Vcnsthreefs(admin::VcnsThreeFsStorageSpec {
            cluster_name: vcns.mount.cluster_name,
            mountpoint: vcns.mount.mountpoint,
            root_dir: vcns.mount.root_dir,
            key_count_per_file: vcns.mount.key_count_per_file,
            touch_file_when_create: vcns.mount.touch_file_when_create,
            remote_host: vcns.remote_host,
            remote_port: vcns.remote_port,
            meta_storage_uri: vcns.meta_storage_uri,
        })),
        StorageSpec::Mooncake(mooncake) => Some(Spec::Mooncake(admin::MooncakeStorageSpec {
            local_hostname: mooncake.local_hostname,
            metadata_connstring: mooncake.metadata_connstring,
            protocol: mooncake.protocol,
            rdma_device: mooncake.rdma_device,
            master_service_entry: mooncake.master_server_entry,
        })),
        StorageSpec::Pace(pool) => Some(Spec::TairMemPool(pool_spec(pool))),
        StorageSpec::PaceSsd(pool) => {
            storage_type = Some(StorageType::PaceSsd.number());
            Some(Spec::TairMemPool(pool_spec(pool)))
        }
        // The registry's list may grow before this one does.
        _ => None,
    };
    admin::StorageConfig {
        global_unique_name: storage.name.clone(),
        check_storage_available_when_open: storage.check_when_open,
        storage_type,
        is_available: Some(storage.is_available),
        storage_spec: spec,
    }
}

fn pool_spec(pool: PaceSpec) -> admin::TairMemPoolStorageSpec {
    admin::TairMemPoolStorageSpec {
        domain: pool.domain,
        timeout: pool.timeout,
        enable_vipserver: pool.enable_vipserver,
        service_discovery_url: Some(pool.service_discovery_url).filter(|url| !url.is_empty()),
        media_type: Some(pool.media_type).filter(|number| *number != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: Spec, storage_type: Option<i32>) -> admin::StorageConfig {
        admin::StorageConfig {
            global_unique_name: "s".to_owned(),
            check_storage_available_when_open: true,
            storage_type,
            is_available: None,
            storage_spec: Some(spec),
        }
    }

    #[test]
    fn every_kind_comes_back_as_it_was_sent() {
        let pool = admin::TairMemPoolStorageSpec {
            domain: "d".to_owned(),
            timeout: 7,
            media_type: Some(5),
            service_discovery_url: Some("static://x".to_owned()),
            ..Default::default()
        };
        let sent = [
            config(
                Spec::Nfs(admin::NfsStorageSpec {
                    root_path: "/r/".to_owned(),
                    key_count_per_file: 8,
                }),
                None,
            ),
            config(
                Spec::Threefs(admin::ThreeFsStorageSpec {
                    mountpoint: "/m".to_owned(),
                    root_dir: "r".to_owned(),
                    touch_file_when_create: true,
                    ..Default::default()
                }),
                None,
            ),
            config(
                Spec::Vcnsthreefs(admin::VcnsThreeFsStorageSpec {
                    mountpoint: "/m".to_owned(),
                    remote_host: "h".to_owned(),
                    remote_port: 9,
                    ..Default::default()
                }),
                None,
            ),
            config(
                Spec::Mooncake(admin::MooncakeStorageSpec {
                    protocol: "tcp".to_owned(),
                    master_service_entry: "m:1".to_owned(),
                    ..Default::default()
                }),
                None,
            ),
            config(Spec::TairMemPool(pool.clone()), None),
            config(Spec::TairMemPool(pool), Some(9)),
        ];
        for sent in sent {
            let stored = storage(Some(sent.clone())).unwrap();
            let mut shown = storage_config(&stored);
            assert_eq!(shown.is_available.take(), Some(true));
            assert_eq!(shown, sent);
        }
    }

    #[test]
    fn what_cannot_be_a_storage_is_refused_with_its_reason() {
        let nfs = || Spec::Nfs(admin::NfsStorageSpec::default());
        let pool = || Spec::TairMemPool(admin::TairMemPoolStorageSpec::default());
        let cases = [
            (None, Code::InvalidArgument, "{storage}"),
            (
                Some(admin::StorageConfig::default()),
                Code::InvalidArgument,
                "{storage.storage_spec}",
            ),
            (
                Some(config(nfs(), Some(1))),
                Code::InvalidArgument,
                "{storage.storage_type}",
            ),
            (
                Some(config(pool(), Some(9))),
                Code::InvalidArgument,
                "media_type",
            ),
            (
                Some(config(Spec::Dummy(Default::default()), None)),
                Code::Unsupported,
                "dummy",
            ),
            (
                Some(config(Spec::Local(Default::default()), None)),
                Code::Unsupported,
                "local",
            ),
            (
                Some(config(Spec::EventReport(Default::default()), Some(8))),
                Code::Unsupported,
                "event_report",
            ),
        ];
        for (config, code, part) in cases {
            let error = storage(config).unwrap_err();
            assert_eq!(error.code, code, "{error:?}");
            assert!(error.message.contains(part), "{error:?}");
        }
    }
}
