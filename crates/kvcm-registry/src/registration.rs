//! Registering an instance: what is asked, whether it can be, whether it is the same again.

use std::{collections::HashSet, sync::Arc};

use crate::{
    Error, Fields, Group, Instance, LocationSpecGroup, LocationSpecInfo, ModelDeployment,
    instance::name_problem,
};

/// Most specs or spec groups of one instance.
const SPECS_MAX: usize = 4096;

/// What a caller wants to register, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// The group.
    pub group: String,
    /// The instance's id.
    pub id: String,
    /// Tokens per block.
    pub block_size: i32,
    /// The specs of a whole block.
    pub location_spec_infos: Vec<LocationSpecInfo>,
    /// The model; required.
    pub model_deployment: Option<ModelDeployment>,
    /// Named subsets of the specs.
    pub location_spec_groups: Vec<LocationSpecGroup>,
    /// The number of the protocol's QueryType.
    pub default_query_type: i32,
}

/// A registration that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The instance as it stands.
    pub instance: Arc<Instance>,
    /// False when it had been registered with the same fields before; nothing was written then.
    pub is_new: bool,
}

// === impl Registration ===

impl Registration {
    /// Checks every field, in the order of the protocol.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with all fields that are missing or cannot be.
    pub fn validate(&self) -> Result<(), Error> {
        let mut fields = Fields::default();
        for (field, name) in [("instance_group", &self.group), ("instance_id", &self.id)] {
            if let Some(reason) = name_problem(name) {
                fields.add(field, reason);
            }
        }
        let size = self.block_size;
        fields.check(
            size > 0,
            "block_size",
            &format!("must be positive, is {size}"),
        );
        let empty = "must not be empty";
        match &self.model_deployment {
            None => fields.add("model_deployment", "is missing"),
            Some(model) => {
                let named = !model.model_name.is_empty();
                fields.check(named, "model_deployment.model_name", empty);
                fields.check(!model.dtype.is_empty(), "model_deployment.dtype", empty);
            }
        }
        self.check_specs(&mut fields);
        self.check_groups(&mut fields);
        fields.into_result()
    }

    fn check_specs(&self, fields: &mut Fields) {
        let specs = &self.location_spec_infos;
        if specs.is_empty() || specs.len() > SPECS_MAX {
            let reason = format!("must hold 1 to {SPECS_MAX} specs, holds {}", specs.len());
            fields.add("location_spec_infos", reason);
            return;
        }
        let mut seen = HashSet::new();
        let mut sum = Some(0i64);
        for (index, LocationSpecInfo { name, size }) in specs.iter().enumerate() {
            let at = |field: &str| format!("location_spec_infos[{index}].{field}");
            if let Some(reason) = name_problem(name) {
                fields.add(at("name"), reason);
            } else if !seen.insert(name) {
                fields.add(at("name"), format!("repeats `{name}`"));
            }
            if *size < 0 {
                fields.add(at("size"), format!("must not be negative, is {size}"));
            } else {
                sum = sum.and_then(|sum| sum.checked_add(*size));
            }
        }
        fields.check(
            sum.is_some(),
            "location_spec_infos",
            "must not add up to 2^63 bytes or more",
        );
    }

    fn check_groups(&self, fields: &mut Fields) {
        let groups = &self.location_spec_groups;
        if groups.len() > SPECS_MAX {
            let reason = format!("must hold at most {SPECS_MAX}, holds {}", groups.len());
            fields.add("location_spec_groups", reason);
            return;
        }
        let known: HashSet<_> = self.location_spec_infos.iter().map(|s| &s.name).collect();
        let mut seen = HashSet::new();
        for (index, LocationSpecGroup { name, spec_names }) in groups.iter().enumerate() {
            let at = |field: &str| format!("location_spec_groups[{index}].{field}");
            if let Some(reason) = name_problem(name) {
                fields.add(at("name"), reason);
            } else if !seen.insert(name) {
                fields.add(at("name"), format!("repeats `{name}`"));
            }
            if spec_names.is_empty() {
                fields.add(at("spec_names"), "must name at least one spec");
            }
            if let Some(unknown) = spec_names.iter().find(|spec| !known.contains(spec)) {
                let reason = format!("names `{unknown}`, which is not in location_spec_infos");
                fields.add(at("spec_names"), reason);
            }
        }
    }

    /// The instance that a valid registration makes. Groups and their names are sorted, so that
    /// the same sets are the same however they were sent.
    pub(crate) fn into_instance(self, group: &Group) -> Instance {
        let mut location_spec_groups = self.location_spec_groups;
        for group in &mut location_spec_groups {
            group.spec_names.sort_unstable();
            group.spec_names.dedup();
        }
        location_spec_groups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Instance {
            id: self.id,
            group: self.group,
            quota_group: group.global_quota_group_name.clone(),
            block_size: self.block_size,
            location_spec_infos: self.location_spec_infos,
            model_deployment: self.model_deployment.unwrap_or_default(),
            location_spec_groups,
            default_query_type: self.default_query_type,
        }
    }
}

/// The fields that make two instances different, as `wanted` against `stored`; none when they are
/// the same instance. The quota group and the model's user data do not count.
pub(crate) fn differences(stored: &Instance, wanted: &Instance) -> Fields {
    let mut fields = Fields::default();
    if stored.group != wanted.group {
        let reason = format!("is `{}`, not `{}`", stored.group, wanted.group);
        fields.add("instance_group_name", reason);
    }
    if stored.block_size != wanted.block_size {
        let reason = format!("is {}, not {}", stored.block_size, wanted.block_size);
        fields.add("block_size", reason);
    }
    if stored.location_spec_infos != wanted.location_spec_infos {
        let reason = "has other names, sizes or another order";
        fields.add("location_spec_infos", reason);
    }
    let mut model = wanted.model_deployment.clone();
    model
        .user_data
        .clone_from(&stored.model_deployment.user_data);
    if stored.model_deployment != model {
        fields.add(
            "model_deployment",
            differing(&stored.model_deployment, &model),
        );
    }
    if stored.location_spec_groups != wanted.location_spec_groups {
        fields.add("location_spec_groups", "has other names or specs");
    }
    if stored.default_query_type != wanted.default_query_type {
        let (is, not) = (stored.default_query_type, wanted.default_query_type);
        fields.add("default_query_type", format!("is {is}, not {not}"));
    }
    fields
}

/// What differs within two models: `differs in dtype ("fp16", not "bf16")`.
fn differing(stored: &ModelDeployment, wanted: &ModelDeployment) -> String {
    // Texts, numbers and booleans always have a JSON form.
    let members = |model| serde_json::to_value(model).unwrap_or_default();
    let (stored, wanted) = (members(stored), members(wanted));
    let stored = stored.as_object().into_iter().flatten();
    let differing: Vec<_> = stored
        .filter(|(name, value)| wanted[name.as_str()] != **value)
        .map(|(name, value)| format!("{name} ({value}, not {})", wanted[name.as_str()]))
        .collect();
    format!("differs in {}", differing.join(", "))
}
