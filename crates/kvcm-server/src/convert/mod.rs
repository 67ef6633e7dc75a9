//! Between the protocol's messages and the plain types of registry and cache.

mod group;
mod storage;

pub(crate) use self::{
    group::{group, instance_group},
    storage::{storage, storage_config},
};

/// What both packages of the protocol have, each with messages of its own.
macro_rules! package {
    ($package:ident) => {
        pub(crate) mod $package {
            use kvcm_cache::{Mask, View};
            use kvcm_proto::$package::{self as proto, block_mask::Info};
            use kvcm_registry::{
                Instance, LocationSpecGroup, LocationSpecInfo, ModelDeployment, Registration,
            };

            /// A registration as the registry takes it.
            pub(crate) fn registration(request: proto::RegisterInstanceRequest) -> Registration {
                let default_query_type = request.default_query_type.unwrap_or_default();
                Registration {
                    group: request.instance_group,
                    id: request.instance_id,
                    block_size: request.block_size,
                    location_spec_infos: request
                        .location_spec_infos
                        .into_iter()
                        .map(|info| LocationSpecInfo {
                            name: info.name,
                            size: info.size,
                        })
                        .collect(),
                    model_deployment: request.model_deployment.map(|model| ModelDeployment {
                        model_name: model.model_name,
                        dtype: model.dtype,
                        use_mla: model.use_mla,
                        tp_size: model.tp_size,
                        dp_size: model.dp_size,
                        lora_name: model.lora_name,
                        pp_size: model.pp_size,
                        extra: model.extra,
                        user_data: model.user_data,
                        use_eagle_pop: model.use_eagle_pop.unwrap_or_default(),
                    }),
                    location_spec_groups: request
                        .location_spec_groups
                        .into_iter()
                        .map(|group| LocationSpecGroup {
                            name: group.name,
                            spec_names: group.spec_names,
                        })
                        .collect(),
                    default_query_type,
                }
            }

            /// A registered instance as the protocol shows it. What newer versions of the
            /// protocol added is there only when it says something.
            pub(crate) fn instance_info(instance: &Instance) -> proto::InstanceInfo {
                let model = &instance.model_deployment;
                let infos = instance.location_spec_infos.iter();
                let groups = instance.location_spec_groups.iter();
                let default_query_type = instance.default_query_type;
                proto::InstanceInfo {
                    quota_group_name: instance.quota_group.clone(),
                    instance_group_name: instance.group.clone(),
                    instance_id: instance.id.clone(),
                    block_size: instance.block_size,
                    location_spec_infos: infos
                        .map(|info| proto::LocationSpecInfo {
                            name: info.name.clone(),
                            size: info.size,
                        })
                        .collect(),
                    model_deployment: Some(proto::ModelDeployment {
                        model_name: model.model_name.clone(),
                        dtype: model.dtype.clone(),
                        use_mla: model.use_mla,
                        tp_size: model.tp_size,
                        dp_size: model.dp_size,
                        lora_name: model.lora_name.clone(),
                        pp_size: model.pp_size,
                        extra: model.extra.clone(),
                        user_data: model.user_data.clone(),
                        use_eagle_pop: model.use_eagle_pop.then_some(true),
                    }),
                    location_spec_groups: groups
                        .map(|group| proto::LocationSpecGroup {
                            name: group.name.clone(),
                            spec_names: group.spec_names.clone(),
                        })
                        .collect(),
                    default_query_type: Some(default_query_type).filter(|number| *number != 0),
                }
            }

            /// One entry of a lookup's answer.
            pub(crate) fn location(view: &View<'_>) -> proto::CacheLocation {
                let specs = view.specs().map(|spec| proto::LocationSpec {
                    name: spec.name().to_owned(),
                    uri: spec.uri().map_or_else(String::new, |uri| uri.to_string()),
                });
                let location_specs: Vec<_> = specs.collect();
                proto::CacheLocation {
                    r#type: view
                        .storage_type()
                        .map_or(0, kvcm_registry::StorageType::number),
                    spec_size: i32::try_from(location_specs.len()).unwrap_or(i32::MAX),
                    location_specs,
                }
            }

            /// A mask that is there but says nothing masks nothing.
            pub(crate) fn mask(mask: Option<&proto::BlockMask>) -> Mask<'_> {
                match mask.and_then(|mask| mask.info.as_ref()) {
                    None => Mask::None,
                    Some(Info::Offset(offset)) => Mask::Offset(*offset),
                    Some(Info::BoolMasks(masks)) => Mask::Bools(&masks.values),
                }
            }
        }
    };
}

package!(meta);
package!(admin);

/// The blocks that a request names.
pub(crate) const fn blocks<'a>(keys: &'a [i64], tokens: &'a [i64]) -> kvcm_cache::Blocks<'a> {
    kvcm_cache::Blocks { keys, tokens }
}

/// Which keys of a write were skipped.
pub(crate) fn skipped(skipped: kvcm_cache::Skipped) -> kvcm_proto::meta::BlockMask {
    use kvcm_proto::meta::{BlockMask, BoolMasksType, block_mask::Info};
    let info = match skipped {
        kvcm_cache::Skipped::Offset(count) => {
            Info::Offset(i32::try_from(count).unwrap_or(i32::MAX))
        }
        kvcm_cache::Skipped::Bools(values) => Info::BoolMasks(BoolMasksType { values }),
    };
    BlockMask { info: Some(info) }
}
