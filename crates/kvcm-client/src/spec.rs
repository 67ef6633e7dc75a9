//! What an engine registers.

use kvcm_proto::meta::{
    InstanceInfo, LocationSpecGroup, LocationSpecInfo, ModelDeployment, RegisterInstanceRequest,
};

/// An instance: one deployment of a model whose KV cache is managed together.
///
/// Registering the same again changes nothing; the same id with other values is refused with
/// [`ErrorKind::Duplicate`](crate::ErrorKind::Duplicate).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceSpec {
    /// The instance group, whose quota and stores the instance uses.
    pub group: String,
    /// The instance's id, unique in the cluster.
    pub id: String,
    /// Tokens per block, more than 0.
    pub block_size: i32,
    /// The pieces that every block has, for instance one per tensor-parallel rank; at least one.
    pub pieces: Vec<Piece>,
    /// What is served.
    pub model: Model,
    /// Named subsets of the pieces.
    pub piece_groups: Vec<PieceGroup>,
}

/// A piece of every block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its name, unique in the instance.
    pub name: String,
    /// Its size, bytes.
    pub size: i64,
}

/// Pieces that are written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceGroup {
    /// The group's name.
    pub name: String,
    /// Names of its pieces.
    pub pieces: Vec<String>,
}

/// A model and how it is deployed. All but `user_data` is part of the instance's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The model's name; required.
    pub name: String,
    /// Element type, for instance `bf16`; required.
    pub dtype: String,
    /// Whether it uses multi-head latent attention.
    pub use_mla: bool,
    /// Tensor-parallel size.
    pub tp_size: i32,
    /// Data-parallel size.
    pub dp_size: i32,
    /// Pipeline-parallel size.
    pub pp_size: i32,
    /// The LoRA adapter, if any.
    pub lora_name: String,
    /// Free text, part of the identity.
    pub extra: String,
    /// Free text, not part of the identity.
    pub user_data: String,
}

impl InstanceSpec {
    /// An instance of `block_size` tokens per block, without pieces and model yet.
    pub fn new(group: impl Into<String>, id: impl Into<String>, block_size: i32) -> Self {
        Self {
            group: group.into(),
            id: id.into(),
            block_size,
            ..Self::default()
        }
    }

    /// Sets the model's name and element type.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, dtype: impl Into<String>) -> Self {
        self.model.name = name.into();
        self.model.dtype = dtype.into();
        self
    }

    /// Adds a piece of `size` bytes.
    #[must_use]
    pub fn piece(mut self, name: impl Into<String>, size: i64) -> Self {
        self.pieces.push(Piece {
            name: name.into(),
            size,
        });
        self
    }

    pub(crate) fn from_wire(group: String, info: InstanceInfo) -> Self {
        let model = info.model_deployment.unwrap_or_default();
        Self {
            group: if group.is_empty() {
                info.instance_group_name
            } else {
                group
            },
            id: info.instance_id,
            block_size: info.block_size,
            pieces: info
                .location_spec_infos
                .into_iter()
                .map(|piece| Piece {
                    name: piece.name,
                    size: piece.size,
                })
                .collect(),
            model: Model {
                name: model.model_name,
                dtype: model.dtype,
                use_mla: model.use_mla,
                tp_size: model.tp_size,
                dp_size: model.dp_size,
                pp_size: model.pp_size,
                lora_name: model.lora_name,
                extra: model.extra,
                user_data: model.user_data,
            },
            piece_groups: info
                .location_spec_groups
                .into_iter()
                .map(|group| PieceGroup {
                    name: group.name,
                    pieces: group.spec_names,
                })
                .collect(),
        }
    }

    pub(crate) fn to_wire(&self) -> RegisterInstanceRequest {
        let model = &self.model;
        RegisterInstanceRequest {
            instance_group: self.group.clone(),
            instance_id: self.id.clone(),
            block_size: self.block_size,
            location_spec_infos: self
                .pieces
                .iter()
                .map(|piece| LocationSpecInfo {
                    name: piece.name.clone(),
                    size: piece.size,
                })
                .collect(),
            model_deployment: Some(ModelDeployment {
                model_name: model.name.clone(),
                dtype: model.dtype.clone(),
                use_mla: model.use_mla,
                tp_size: model.tp_size,
                dp_size: model.dp_size,
                pp_size: model.pp_size,
                lora_name: model.lora_name.clone(),
                extra: model.extra.clone(),
                user_data: model.user_data.clone(),
                ..ModelDeployment::default()
            }),
            location_spec_groups: self
                .piece_groups
                .iter()
                .map(|group| LocationSpecGroup {
                    name: group.name.clone(),
                    spec_names: group.pieces.clone(),
                })
                .collect(),
            ..RegisterInstanceRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_registered_is_read_back_the_same() {
        let mut spec = InstanceSpec::new("g", "i", 16)
            .model("m", "bf16")
            .piece("tp0", 7);
        spec.model.lora_name = "l".to_owned();
        spec.model.tp_size = 2;
        spec.piece_groups = vec![PieceGroup {
            name: "all".to_owned(),
            pieces: vec!["tp0".to_owned()],
        }];
        let wire = spec.to_wire();
        let info = InstanceInfo {
            instance_group_name: wire.instance_group,
            instance_id: wire.instance_id,
            block_size: wire.block_size,
            location_spec_infos: wire.location_spec_infos,
            model_deployment: wire.model_deployment,
            location_spec_groups: wire.location_spec_groups,
            ..InstanceInfo::default()
        };
        assert_eq!(InstanceSpec::from_wire(String::new(), info), spec);
    }
}
