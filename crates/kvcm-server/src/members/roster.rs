//! Which nodes are alive, judged from their records.

use coordination_core::Value;
use kvcm_clock::Moment;

use super::record::{HEARTBEAT, NodeRecord, RECORD_KEPT, RECORD_TTL};

/// A node as this one last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// What it wrote.
    pub(crate) record: NodeRecord,
    /// When it last renewed its record.
    pub(crate) beat_at: Moment,
    /// Of its record: another one means another heartbeat.
    pub(super) version: u64,
}

/// All records, as read at one time.
///
/// A node is judged by this process's own clock: it is alive while its record has changed within
/// [`RECORD_TTL`]. How long the backend says a record has left tells only where between two looks
/// it changed, and how old one is that is seen for the first time; so neither the nodes' clocks nor
/// a jump of the backend's make a live node look dead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    members: Vec<Member>,
    /// When the records were read; none: not yet.
    read_at: Option<Moment>,
}

impl Roster {
    /// The roster after a look at `now` that found these records.
    pub(super) fn next(&self, values: Vec<(String, Value)>, now: Moment) -> Self {
        let members = values.into_iter().filter_map(|(_, value)| {
            let record: NodeRecord = serde_json::from_str(&value.text).ok()?;
            let beat_at = self.beat_at(&record, &value, now);
            Some(Member {
                record,
                beat_at,
                version: value.version,
            })
        });
        Self {
            members: members.collect(),
            read_at: Some(now),
        }
    }

    fn beat_at(&self, record: &NodeRecord, value: &Value, now: Moment) -> Moment {
        // A record without a time to live is one of the predecessor, whose nodes do not beat.
        let Some(remaining) = value.remaining else {
            return now;
        };
        let told = now - RECORD_KEPT.saturating_sub(remaining);
        match (self.find(&record.endpoint.node_id), self.read_at) {
            (Some(known), _) if known.version == value.version => known.beat_at,
            (Some(_), Some(read_at)) => told.max(read_at).min(now),
            _ => told,
        }
    }

    fn find(&self, node: &str) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.record.endpoint.node_id == node)
    }

    /// The nodes that are alive at `now` or died a short time ago, by name, and which of the two.
    pub(crate) fn at(&self, now: Moment) -> impl Iterator<Item = (&Member, bool)> {
        let judged_at = self.judged_at(now);
        self.members.iter().filter_map(move |member| {
            let silent = judged_at.since(member.beat_at);
            (silent < RECORD_KEPT).then_some((member, silent < RECORD_TTL))
        })
    }

    /// Whether the record of `node` with this version belongs to a life that beats no more.
    pub(super) fn is_expired(&self, node: &str, version: u64, now: Moment) -> bool {
        let judged_at = self.judged_at(now);
        self.find(node).is_some_and(|member| {
            member.version == version && judged_at.since(member.beat_at) >= RECORD_TTL
        })
    }

    /// While the backend is away nobody's heartbeat is seen, which says nothing about any node.
    fn judged_at(&self, now: Moment) -> Moment {
        let known_until = self.read_at.map_or(now, |read_at| read_at + HEARTBEAT);
        now.min(known_until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn value(version: u64, remaining: Option<Duration>) -> Vec<(String, Value)> {
        let text = r#"{"node_id":"n","incarnation":"1","role":"leader","ready":true}"#;
        let value = Value {
            text: text.to_owned(),
            version,
            remaining,
        };
        vec![("nodes/n".to_owned(), value)]
    }

    fn alive(roster: &Roster, now: Moment) -> Option<bool> {
        roster.at(now).next().map(|(_, alive)| alive)
    }

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + S * u32::try_from(seconds).unwrap()
    }

    #[test]
    fn a_record_that_stands_still_is_expired_after_one_time_to_live_and_gone_after_three() {
        let mut roster = Roster::default();
        for second in 100..=109 {
            let now = at(second);
            // The backend's own clock stands still, which must not keep a dead node alive.
            roster = roster.next(value(7, Some(RECORD_KEPT)), now);
            let expected = match second {
                100..103 => Some(true),
                103..109 => Some(false),
                _ => None,
            };
            assert_eq!(alive(&roster, now), expected, "second {second}");
        }
    }

    #[test]
    fn one_that_is_seen_for_the_first_time_is_as_old_as_the_backend_says() {
        let roster = Roster::default().next(value(7, Some(5 * S)), at(100));
        assert_eq!(alive(&roster, at(100)), Some(false));
        assert!(roster.is_expired("n", 7, at(100)));
        assert!(!roster.is_expired("n", 8, at(100)), "it has beaten since");
    }

    #[test]
    fn a_jump_of_the_backends_clock_kills_nobody_who_beats() {
        let first = Roster::default().next(value(7, Some(RECORD_KEPT)), at(100));
        // Just renewed, and yet it has hardly any time left.
        let jumped = first.next(value(8, Some(Duration::from_millis(1))), at(101));
        assert_eq!(alive(&jumped, at(101)), Some(true));
    }

    #[test]
    fn nobody_expires_while_the_backend_is_away() {
        let roster = Roster::default().next(value(7, Some(RECORD_KEPT)), at(100));
        assert_eq!(alive(&roster, at(10_000)), Some(true));
        let back = roster.next(value(7, Some(RECORD_KEPT)), at(10_001));
        assert_eq!(alive(&back, at(10_001)), None, "it has not beaten since");
    }

    #[test]
    fn a_record_of_the_predecessor_has_no_heartbeat_and_stays() {
        let first = Roster::default().next(value(7, None), at(100));
        let later = first.next(value(7, None), at(1000));
        assert_eq!(alive(&later, at(1000)), Some(true));
    }
}
