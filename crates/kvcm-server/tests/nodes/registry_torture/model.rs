//! What has to be in the registry.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a registry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Storage,
    Group,
    Instance,
    Account,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Storage, Self::Group, Self::Instance, Self::Account];

    /// The list of a config snapshot, and the member that names its elements.
    pub(super) const fn list(self) -> (&'static str, &'static str) {
        match self {
            Self::Storage => ("storages", "global_unique_name"),
            Self::Group => ("instance_groups", "name"),
            Self::Instance => ("instances", "instance_id"),
            Self::Account => ("accounts", "user_name"),
        }
    }

    /// The call that lists them, the list in its answer, and the member that names its elements.
    pub(super) const fn listing(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Storage => ("listStorage", "storage", "global_unique_name"),
            Self::Group => ("listInstanceGroup", "instance_group", "name"),
            Self::Instance => ("listInstanceInfo", "instance_info", "instance_id"),
            Self::Account => ("listAccount", "accounts", "user_name"),
        }
    }
}

/// Things by kind and name, each whole as a config snapshot shows it.
pub(super) type Things = BTreeMap<(Kind, String), Value>;

/// What an answer to genConfigSnapshot holds.
pub(super) fn things(answer: &Value) -> Things {
    let text = answer["config_snapshot"].as_str();
    let text = text.unwrap_or_else(|| panic!("no snapshot: {answer}"));
    let snapshot: Value = serde_json::from_str(text).unwrap();
    let of_kind = |kind: Kind| {
        let (list, name) = kind.list();
        let elements = snapshot[list].as_array().unwrap().iter();
        elements.map(move |thing| {
            let name = thing[name].as_str().unwrap().to_owned();
            ((kind, name), thing.clone())
        })
    };
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

/// Those whose names begin like that, taken out of all.
pub(super) fn take(all: &mut Things, prefix: &str) -> Things {
    all.extract_if(.., |(_, name), _| name.starts_with(prefix))
        .collect()
}

/// The part of the registry that one writer has for itself, which changes one thing after the
/// other.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// What is there, as far as that is known.
    settled: Things,
    pending: Option<Pending>,
    /// What was found of a change before its answer came.
    judged: Option<Outcome>,
}

/// A change that is not answered yet, or without a clear answer.
#[derive(Debug)]
struct Pending {
    what: String,
    /// What is there when it has happened.
    after: Things,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was acknowledged.
    Done,
    /// It was refused: it did not happen and will not.
    NotDone,
    /// There was no answer, or one that says so.
    Unknown,
}

impl Part {
    pub(super) const fn settled(&self) -> &Things {
        &self.settled
    }

    /// A change goes out, which makes the part `after`.
    pub(super) fn begin(&mut self, what: String, after: Things) {
        assert_ne!(self.settled, after, "{what} changes nothing");
        self.judged = None;
        self.pending = Some(Pending { what, after });
    }

    /// The change was answered. When its outcome was found before, the answer has to agree.
    pub(super) fn answered(&mut self, outcome: Outcome) {
        if let Some(judged) = self.judged.take() {
            let agrees = outcome == Outcome::Unknown || outcome == judged;
            assert!(
                agrees,
                "found {judged:?} and then answered {outcome:?}: {self:?}"
            );
            return;
        }
        if outcome != Outcome::Unknown
            && let Some(pending) = self.pending.take()
            && outcome == Outcome::Done
        {
            self.settled = pending.after;
        }
    }

    /// Compares with what was found, which is what is there from now on. Gives what became of
    /// the change that was not known.
    pub(super) fn settle(&mut self, who: &str, found: Things) -> Option<Outcome> {
        let is_as_before = found == self.settled;
        let Some(Pending { what, after }) = self.pending.take() else {
            assert!(
                is_as_before,
                "{who}: {}",
                differences(&self.settled, &found)
            );
            return None;
        };
        assert!(
            is_as_before || found == after,
            "{who}, {what}: not as without it, {}; nor as with it, {}",
            differences(&self.settled, &found),
            differences(&after, &found)
        );
        self.settled = found;
        self.judged = Some(match is_as_before {
            true => Outcome::NotDone,
            false => Outcome::Done,
        });
        self.judged
    }
}

fn differences(expected: &Things, found: &Things) -> String {
    let missing = expected
        .iter()
        .filter(|(key, thing)| found.get(*key) != Some(*thing));
    let added = found
        .iter()
        .filter(|(key, thing)| expected.get(*key) != Some(*thing));
    format!(
        "expected {:?} and found {:?}",
        missing.collect::<Vec<_>>(),
        added.collect::<Vec<_>>()
    )
}
