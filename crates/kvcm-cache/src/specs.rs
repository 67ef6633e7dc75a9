//! Which specs a location holds, as a number.

use kvcm_registry::Instance;

/// The sets of specs that a location of one instance can hold: all of them, or those of one of its
/// groups. Their numbers follow from the registration, which never changes.
#[derive(Debug)]
pub(crate) struct SpecSets {
    sets: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    /// Name of the group; empty for all specs.
    group: Box<str>,
    /// Numbers of the specs in the registration, rising.
    specs: Box<[u16]>,
    bytes: u64,
}

/// All specs.
pub(crate) const ALL: u16 = 0;

impl SpecSets {
    pub(crate) fn new(instance: &Instance) -> Self {
        let infos = &instance.location_spec_infos;
        let set = |group: &str, wanted: &dyn Fn(&str) -> bool| {
            // Registration allows 4096 specs, so the numbers fit.
            let chosen = (0u16..).zip(infos).filter(|(_, info)| wanted(&info.name));
            let (specs, sizes): (Vec<u16>, Vec<u64>) = chosen
                .map(|(number, info)| (number, u64::try_from(info.size).unwrap_or(0)))
                .unzip();
            Set {
                group: group.into(),
                specs: specs.into(),
                bytes: sizes.iter().sum(),
            }
        };
        let groups = instance.location_spec_groups.iter().map(|group| {
            let wanted = |name: &str| group.spec_names.iter().any(|spec| spec == name);
            set(&group.name, &wanted)
        });
        Self {
            sets: std::iter::once(set("", &|_| true)).chain(groups).collect(),
        }
    }

    /// The number of the group's set; the empty name is all specs.
    pub(crate) fn number(&self, group: &str) -> Option<u16> {
        let at = self.sets.iter().position(|set| &*set.group == group)?;
        u16::try_from(at).ok()
    }

    /// The group's name.
    pub(crate) fn group(&self, number: u16) -> &str {
        self.set(number).map_or("", |set| &set.group)
    }

    /// Numbers of the specs in the registration.
    pub(crate) fn specs(&self, number: u16) -> &[u16] {
        self.set(number).map_or(&[], |set| &set.specs)
    }

    /// Bytes of a location that holds them.
    pub(crate) fn bytes(&self, number: u16) -> u64 {
        self.set(number).map_or(0, |set| set.bytes)
    }

    /// Whether the specs of `held` include those of `wanted`.
    pub(crate) fn covers(&self, held: u16, wanted: u16) -> bool {
        if held == wanted || held == ALL {
            return true;
        }
        let held = self.specs(held);
        let mut wanted = self.specs(wanted).iter();
        wanted.all(|spec| held.binary_search(spec).is_ok())
    }

    fn set(&self, number: u16) -> Option<&Set> {
        self.sets.get(usize::from(number))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kvcm_registry::{LocationSpecGroup, LocationSpecInfo, ModelDeployment};

    use super::*;

    pub(crate) fn instance(specs: &[(&str, i64)], groups: &[(&str, &[&str])]) -> Instance {
        Instance {
            id: "i1".into(),
            group: "default".into(),
            quota_group: String::new(),
            block_size: 4,
            location_spec_infos: specs
                .iter()
                .map(|(name, size)| LocationSpecInfo {
                    name: (*name).into(),
                    size: *size,
                })
                .collect(),
            model_deployment: ModelDeployment::default(),
            location_spec_groups: groups
                .iter()
                .map(|(name, specs)| LocationSpecGroup {
                    name: (*name).into(),
                    spec_names: specs.iter().map(|spec| (*spec).into()).collect(),
                })
                .collect(),
            default_query_type: 0,
        }
    }

    #[test]
    fn a_set_covers_another_when_it_holds_its_specs() {
        let sets = SpecSets::new(&instance(
            &[("a", 1), ("b", 10), ("c", 100)],
            &[("ab", &["a", "b"]), ("b", &["b"]), ("c", &["c"])],
        ));
        let number = |group| sets.number(group).unwrap();
        assert_eq!(number(""), ALL);
        assert_eq!(sets.number("x"), None);
        assert!(sets.covers(ALL, number("ab")) && sets.covers(number("ab"), number("b")));
        assert!(!sets.covers(number("b"), number("ab")));
        assert!(!sets.covers(number("c"), number("b")));
        assert!(!sets.covers(number("ab"), ALL));
        assert_eq!(sets.bytes(ALL), 111);
        assert_eq!(sets.bytes(number("ab")), 11);
        assert_eq!(sets.specs(number("c")), [2]);
        assert_eq!(sets.group(number("c")), "c");
    }
}
