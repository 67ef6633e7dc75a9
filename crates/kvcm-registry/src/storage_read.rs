//! A storage out of the configuration JSON.

use crate::{
    FileSpec, Hf3fsSpec, MooncakeSpec, PaceSpec, Storage, StorageSpec, StorageType, VcnsHf3fsSpec,
    reader::Reader,
};

/// Reads a storage; `None` when its kind is not known, which is noted.
pub(crate) fn storage(reader: &mut Reader<'_>) -> Option<Storage> {
    reader.require("type", "which kind of storage it is");
    reader.require("storage_spec", "where the storage is");
    let text = reader.text("type", "");
    let name = reader.text("global_unique_name", "");
    let is_available = reader.flag("is_available", true);
    let check_when_open = reader.flag("check_storage_available_when_open", false);
    let kind = match text.parse::<StorageType>() {
        Ok(kind) => Some(kind),
        Err(_) if text.is_empty() => None,
        Err(reason) => {
            reader.mistake(format!("`{}`: {reason}", reader.place_of("type")));
            None
        }
    };
    let Some(kind) = kind else {
        // Looked at, so that it does not count as unknown; its members depend on the kind.
        reader.look_at("storage_spec");
        return None;
    };
    let spec = reader.object("storage_spec", |reader| spec(kind, reader))?;
    Some(Storage {
        name,
        is_available,
        check_when_open,
        spec,
    })
}

fn spec(kind: StorageType, reader: &mut Reader<'_>) -> StorageSpec {
    match kind {
        StorageType::File => StorageSpec::File(FileSpec {
            root_path: reader.text("root_path", ""),
            key_count_per_file: reader.int("key_count_per_file", 1),
        }),
        StorageType::Hf3fs => StorageSpec::Hf3fs(mount(reader)),
        StorageType::VcnsHf3fs => StorageSpec::VcnsHf3fs(VcnsHf3fsSpec {
            mount: mount(reader),
            remote_host: reader.text("remote_host", ""),
            remote_port: reader.int("remote_port", 0),
            meta_storage_uri: reader.text("meta_storage_uri", ""),
        }),
        StorageType::Mooncake => StorageSpec::Mooncake(MooncakeSpec {
            local_hostname: reader.text("local_hostname", ""),
            metadata_connstring: reader.text("metadata_connstring", ""),
            protocol: reader.text("protocol", ""),
            rdma_device: reader.text("rdma_device", ""),
            master_server_entry: reader.text("master_server_entry", ""),
        }),
        StorageType::Pace => StorageSpec::Pace(pace(reader)),
        StorageType::PaceSsd => StorageSpec::PaceSsd(pace(reader)),
    }
}

fn mount(reader: &mut Reader<'_>) -> Hf3fsSpec {
    Hf3fsSpec {
        cluster_name: reader.text("cluster_name", ""),
        mountpoint: reader.text("mountpoint", ""),
        root_dir: reader.text("root_dir", ""),
        key_count_per_file: reader.int("key_count_per_file", 1),
        touch_file_when_create: reader.flag("touch_file_when_create", false),
    }
}

fn pace(reader: &mut Reader<'_>) -> PaceSpec {
    PaceSpec {
        domain: reader.text("domain", ""),
        timeout: reader.int("timeout", 0),
        enable_vipserver: reader.flag("enable_vipserver", false),
        service_discovery_url: reader.text("service_discovery_url", ""),
        media_type: reader.int("media_type", 0),
    }
}
