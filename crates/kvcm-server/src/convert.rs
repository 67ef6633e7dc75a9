//! Between the protocol's messages and the plain types of registry and cache.

use kvcm_cache::{Skipped, View};
use kvcm_proto::meta;
use kvcm_registry::{Instance, LocationSpecGroup, LocationSpecInfo, ModelDeployment, Registration};

/// A registration as the registry takes it.
pub(crate) fn registration(request: meta::RegisterInstanceRequest) -> Registration {
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

/// A registered instance as the protocol shows it. What newer versions of the protocol added is
/// there only when it says something.
pub(crate) fn instance_info(instance: &Instance) -> meta::InstanceInfo {
    let model = &instance.model_deployment;
    meta::InstanceInfo {
        quota_group_name: instance.quota_group.clone(),
        instance_group_name: instance.group.clone(),
        instance_id: instance.id.clone(),
        block_size: instance.block_size,
        location_spec_infos: instance
            .location_spec_infos
            .iter()
            .map(|info| meta::LocationSpecInfo {
                name: info.name.clone(),
                size: info.size,
            })
            .collect(),
        model_deployment: Some(meta::ModelDeployment {
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
        location_spec_groups: instance
            .location_spec_groups
            .iter()
            .map(|group| meta::LocationSpecGroup {
                name: group.name.clone(),
                spec_names: group.spec_names.clone(),
            })
            .collect(),
        default_query_type: Some(instance.default_query_type).filter(|number| *number != 0),
    }
}

/// One entry of a lookup's answer.
pub(crate) fn location(view: &View<'_>) -> meta::CacheLocation {
    let specs = view.specs().map(|spec| meta::LocationSpec {
        name: spec.name().to_owned(),
        uri: spec.uri().map_or_else(String::new, |uri| uri.to_string()),
    });
    let location_specs: Vec<_> = specs.collect();
    meta::CacheLocation {
        r#type: view
            .storage_type()
            .map_or(0, kvcm_registry::StorageType::number),
        spec_size: i32::try_from(location_specs.len()).unwrap_or(i32::MAX),
        location_specs,
    }
}

/// Which keys of a write were skipped.
pub(crate) fn skipped(skipped: Skipped) -> meta::BlockMask {
    use meta::block_mask::Info;
    let info = match skipped {
        Skipped::Offset(count) => Info::Offset(i32::try_from(count).unwrap_or(i32::MAX)),
        Skipped::Bools(values) => Info::BoolMasks(meta::BoolMasksType { values }),
    };
    meta::BlockMask { info: Some(info) }
}
