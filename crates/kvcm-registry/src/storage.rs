//! Data storages as they are configured.

use serde::{Deserialize, Serialize, Serializer};

use crate::{Fields, StorageType, instance::name_problem};

/// One data storage: where the bytes of cached blocks go.
///
/// Its JSON is `{type, is_available, global_unique_name, storage_spec{…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Read")]
pub struct Storage {
    /// Its name, which is also the host part of its URIs (`global_unique_name`).
    pub name: String,
    /// Whether new blocks may go there: false when an operator disabled it.
    pub is_available: bool,
    /// Probe it when it is opened.
    pub check_when_open: bool,
    /// What it is.
    pub spec: StorageSpec,
}

/// What a storage is, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum StorageSpec {
    /// Files on a shared file system.
    File(FileSpec),
    /// 3FS.
    Hf3fs(Hf3fsSpec),
    /// 3FS through VCNS.
    VcnsHf3fs(VcnsHf3fsSpec),
    /// Mooncake.
    Mooncake(MooncakeSpec),
    /// PACE pool.
    Pace(PaceSpec),
    /// PACE pool on SSD.
    PaceSsd(PaceSpec),
}

/// Files under one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSpec {
    /// The directory.
    pub root_path: String,
    /// How many keys share one file.
    pub key_count_per_file: i32,
}

/// Files on a 3FS mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hf3fsSpec {
    /// The cluster's name, for people.
    pub cluster_name: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// The directory under the mount point.
    pub root_dir: String,
    /// How many keys share one file.
    pub key_count_per_file: i32,
    /// Create the file when its place is granted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub touch_file_when_create: bool,
}

/// Files on a 3FS mount that is reached through VCNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VcnsHf3fsSpec {
    /// The mount.
    #[serde(flatten)]
    pub mount: Hf3fsSpec,
    /// The remote host.
    pub remote_host: String,
    /// Its port.
    pub remote_port: i32,
    /// Where the mapping's metadata lives.
    pub meta_storage_uri: String,
}

/// A Mooncake store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MooncakeSpec {
    /// The client's address.
    pub local_hostname: String,
    /// The metadata service.
    pub metadata_connstring: String,
    /// `rdma` or `tcp`.
    pub protocol: String,
    /// Arguments of the transport.
    pub rdma_device: String,
    /// The master.
    pub master_server_entry: String,
}

/// A PACE pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PaceSpec {
    /// The domain of its metadata service.
    pub domain: String,
    /// The unit's time-out.
    pub timeout: i32,
    /// Discovery through vipserver.
    pub enable_vipserver: bool,
    /// Discovery URL of later versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_discovery_url: String,
    /// Medium of later versions: 0 unset, 2 DRAM, 5 SSD.
    #[serde(skip_serializing_if = "is_zero")]
    pub media_type: i32,
}

/// The JSON of a [`Storage`] as it is written, its members in the predecessor's order.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "type")]
    kind: StorageType,
    is_available: bool,
    global_unique_name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    check_storage_available_when_open: bool,
    storage_spec: &'a StorageSpec,
}

/// The same as it is read: what `storage_spec` holds depends on the type.
#[derive(Deserialize)]
struct Read {
    #[serde(rename = "type")]
    kind: StorageType,
    #[serde(default = "yes")]
    is_available: bool,
    global_unique_name: String,
    #[serde(default)]
    check_storage_available_when_open: bool,
    storage_spec: serde_json::Value,
}

// === impl Storage ===

impl Storage {
    /// Its kind.
    pub const fn kind(&self) -> StorageType {
        self.spec.kind()
    }

    /// Everything that is missing or cannot be, with the names of the wire under `place`.
    pub fn problems(&self, place: &str) -> Fields {
        let mut fields = Fields::default();
        if let Some(reason) = name_problem(&self.name) {
            fields.add(format!("{place}global_unique_name"), reason);
        }
        let mut text = |field: &str, value: &str| {
            if value.is_empty() {
                fields.add(format!("{place}storage_spec.{field}"), "must not be empty");
            }
        };
        let mut paths: Vec<(&str, &str)> = Vec::new();
        let mut keys_per_file = 1;
        match &self.spec {
            StorageSpec::File(spec) => {
                text("root_path", &spec.root_path);
                paths.push(("root_path", &spec.root_path));
                keys_per_file = spec.key_count_per_file;
            }
            StorageSpec::Hf3fs(mount) => {
                text("mountpoint", &mount.mountpoint);
                text("root_dir", &mount.root_dir);
                paths.push(("mountpoint", &mount.mountpoint));
                paths.push(("root_dir", &mount.root_dir));
                keys_per_file = mount.key_count_per_file;
            }
            StorageSpec::VcnsHf3fs(spec) => {
                text("mountpoint", &spec.mount.mountpoint);
                text("root_dir", &spec.mount.root_dir);
                text("remote_host", &spec.remote_host);
                paths.push(("mountpoint", &spec.mount.mountpoint));
                paths.push(("root_dir", &spec.mount.root_dir));
                keys_per_file = spec.mount.key_count_per_file;
            }
            StorageSpec::Mooncake(spec) => {
                text("local_hostname", &spec.local_hostname);
                text("metadata_connstring", &spec.metadata_connstring);
                text("master_server_entry", &spec.master_server_entry);
            }
            StorageSpec::Pace(spec) | StorageSpec::PaceSsd(spec) => {
                if spec.service_discovery_url.is_empty() {
                    text("domain", &spec.domain);
                }
            }
        }
        if keys_per_file < 0 {
            let reason = format!("must not be negative, is {keys_per_file}");
            fields.add(format!("{place}storage_spec.key_count_per_file"), reason);
        }
        if let StorageSpec::File(FileSpec { root_path, .. }) = &self.spec
            && !root_path.is_empty()
            && !root_path.starts_with('/')
        {
            let reason = "must begin with `/`, it follows the storage's name in URIs";
            fields.add(format!("{place}storage_spec.root_path"), reason);
        }
        for (field, path) in paths {
            if path.contains(|c: char| c == '?' || c == '#' || c.is_control()) {
                let reason = "must not hold `?`, `#` or control characters, it is part of URIs";
                fields.add(format!("{place}storage_spec.{field}"), reason);
            }
            if path.split('/').any(|segment| segment == "..") {
                let reason = "must not hold `..`, nothing leads out of a storage's directory";
                fields.add(format!("{place}storage_spec.{field}"), reason);
            }
        }
        fields
    }
}

impl StorageSpec {
    /// The kind.
    pub const fn kind(&self) -> StorageType {
        match self {
            Self::File(_) => StorageType::File,
            Self::Hf3fs(_) => StorageType::Hf3fs,
            Self::VcnsHf3fs(_) => StorageType::VcnsHf3fs,
            Self::Mooncake(_) => StorageType::Mooncake,
            Self::Pace(_) => StorageType::Pace,
            Self::PaceSsd(_) => StorageType::PaceSsd,
        }
    }

    fn from_json(kind: StorageType, json: serde_json::Value) -> Result<Self, serde_json::Error> {
        use serde_json::from_value;
        Ok(match kind {
            StorageType::File => Self::File(from_value(json)?),
            StorageType::Hf3fs => Self::Hf3fs(from_value(json)?),
            StorageType::VcnsHf3fs => Self::VcnsHf3fs(from_value(json)?),
            StorageType::Mooncake => Self::Mooncake(from_value(json)?),
            StorageType::Pace => Self::Pace(from_value(json)?),
            StorageType::PaceSsd => Self::PaceSsd(from_value(json)?),
        })
    }
}

// === impl JSON ===

impl Serialize for Storage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            kind: self.kind(),
            is_available: self.is_available,
            global_unique_name: &self.name,
            check_storage_available_when_open: self.check_when_open,
            storage_spec: &self.spec,
        };
        written.serialize(serializer)
    }
}

impl TryFrom<Read> for Storage {
    type Error = serde_json::Error;

    fn try_from(read: Read) -> Result<Self, serde_json::Error> {
        Ok(Self {
            name: read.global_unique_name,
            is_available: read.is_available,
            check_when_open: read.check_storage_available_when_open,
            spec: StorageSpec::from_json(read.kind, read.storage_spec)?,
        })
    }
}

const fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_members_and_order_of_the_predecessor() {
        let storage = Storage {
            name: "m".to_owned(),
            is_available: false,
            check_when_open: false,
            spec: StorageSpec::Mooncake(MooncakeSpec::default()),
        };
        let json = serde_json::to_string(&storage).unwrap();
        assert_eq!(
            json,
            "{\"type\":\"mooncake\",\"is_available\":false,\"global_unique_name\":\"m\",\
             \"storage_spec\":{\"local_hostname\":\"\",\"metadata_connstring\":\"\",\
             \"protocol\":\"\",\"rdma_device\":\"\",\"master_server_entry\":\"\"}}"
        );
    }

    #[test]
    fn every_kind_round_trips_with_the_flags_that_the_predecessor_lost() {
        let mount = Hf3fsSpec {
            mountpoint: "/mnt".to_owned(),
            touch_file_when_create: true,
            ..Hf3fsSpec::default()
        };
        let specs = [
            StorageSpec::File(FileSpec::default()),
            StorageSpec::Hf3fs(mount.clone()),
            StorageSpec::VcnsHf3fs(VcnsHf3fsSpec {
                mount,
                remote_port: 9,
                ..VcnsHf3fsSpec::default()
            }),
            StorageSpec::Mooncake(MooncakeSpec::default()),
            StorageSpec::Pace(PaceSpec::default()),
            StorageSpec::PaceSsd(PaceSpec {
                media_type: 5,
                ..PaceSpec::default()
            }),
        ];
        for spec in specs {
            let storage = Storage {
                name: "s".to_owned(),
                is_available: true,
                check_when_open: true,
                spec,
            };
            let json = serde_json::to_string(&storage).unwrap();
            assert_eq!(serde_json::from_str::<Storage>(&json).unwrap(), storage);
        }
    }
}
