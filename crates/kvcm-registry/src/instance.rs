//! Instances: one deployment of one model, with its own block index.

use serde::{Deserialize, Serialize};

/// Longest name or id, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 256;

/// A registered instance. Field names of its JSON are those of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its id, 1 to 256 bytes without control characters.
    #[serde(rename = "instance_id")]
    pub id: String,
    /// The group it belongs to.
    #[serde(rename = "instance_group_name")]
    pub group: String,
    /// The quota group of that group at registration.
    #[serde(rename = "quota_group_name")]
    pub quota_group: String,
    /// Tokens per block, positive.
    pub block_size: i32,
    /// The specs that every whole block has, in order, with different names.
    pub location_spec_infos: Vec<LocationSpecInfo>,
    /// The model.
    pub model_deployment: ModelDeployment,
    /// Named subsets of the specs, with different names, sorted by name.
    #[serde(default)]
    pub location_spec_groups: Vec<LocationSpecGroup>,
    /// The number of the protocol's QueryType, as it was sent.
    #[serde(default)]
    pub default_query_type: i32,
}

/// One part of a block, for instance that of one tensor-parallel rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationSpecInfo {
    /// Its name.
    pub name: String,
    /// Its bytes, not negative.
    pub size: i64,
}

/// A named subset of an instance's specs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationSpecGroup {
    /// Its name.
    pub name: String,
    /// Names of its specs, without repetition, sorted.
    pub spec_names: Vec<String>,
}

/// What an instance runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelDeployment {
    /// Required.
    pub model_name: String,
    /// Type of an element, required.
    pub dtype: String,
    /// Latent attention.
    pub use_mla: bool,
    /// Tensor-parallel size.
    pub tp_size: i32,
    /// Data-parallel size.
    pub dp_size: i32,
    /// LoRA id.
    pub lora_name: String,
    /// Pipeline size.
    pub pp_size: i32,
    /// Free text that is part of the identity.
    pub extra: String,
    /// Free text that is not part of the identity.
    pub user_data: String,
    /// Full attention's prefix counts one less, of later versions.
    pub use_eagle_pop: bool,
}

// === impl Instance ===

impl Instance {
    /// Bytes of one whole block: the sum of its specs.
    pub fn block_bytes(&self) -> i64 {
        // Registration has checked that the sum fits.
        self.location_spec_infos
            .iter()
            .fold(0, |sum, spec| spec.size.saturating_add(sum))
    }

    /// The spec group of this name.
    pub fn spec_group(&self, name: &str) -> Option<&LocationSpecGroup> {
        let mut groups = self.location_spec_groups.iter();
        groups.find(|group| group.name == name)
    }
}

/// What is wrong with a name or id, to be read after the field's name.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("must not be empty")
    } else if name.len() > NAME_BYTES_MAX {
        Some("must not be longer than 256 bytes")
    } else if name.chars().any(char::is_control) {
        Some("must not hold control characters")
    } else {
        None
    }
}
