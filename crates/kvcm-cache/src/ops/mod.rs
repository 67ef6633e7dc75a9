//! What the cache manager writes into its journal.
//!
//! A batch is a list of operations, each `number u8 | length u32 | body`. They name locations by
//! key and grant, so they commute: applied twice, or in another order than that of the journal as
//! long as the start comes first, they lead to the same state.

mod codec;
mod end;
mod instance;
mod locations;
mod remove;
mod request;
mod room;
mod session;
mod start;
mod storage;

pub(crate) use codec::DecodeError;
use codec::{Decoded, Put, Take};
pub(crate) use end::{End, Ending};
pub(crate) use instance::DefineInstance;
pub(crate) use locations::Locations;
pub(crate) use remove::Remove;
#[cfg(test)]
use remove::Removed;
pub(crate) use request::Request;
pub(crate) use room::Room;
pub(crate) use session::{FinishedSession, OpenSession};
pub(crate) use start::Start;
pub(crate) use storage::DefineStorage;

/// Batch kind of these operations in the journal. Stored.
pub(crate) const KIND: u16 = 2;
/// Version of their encoding. Stored.
pub(crate) const VERSION: u16 = 1;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    DefineStorage(DefineStorage),
    Start(Start),
    End(End),
    /// The bytes are gone, the locations go.
    Remove(Remove),
    /// Nobody reads these any more, their bytes are to be deleted.
    Delete(Remove),
    DefineInstance(DefineInstance),
    /// In snapshots only, as the next three.
    Room(Room),
    Locations(Locations),
    OpenSession(OpenSession),
    FinishedSession(FinishedSession),
    /// Whose effect the batch is; also in snapshots.
    Request(Request),
}

/// Numbers of the operations. Stored, so they never change.
#[repr(u8)]
enum Number {
    DefineStorage = 1,
    Start = 2,
    End = 3,
    Remove = 4,
    /// Read only: with each position by itself.
    LocationsEach = 5,
    OpenSession = 6,
    FinishedSession = 7,
    Request = 8,
    Delete = 20,
    DefineInstance = 21,
    Locations = 22,
    Room = 23,
}

impl Op {
    /// Appends the operation to a batch.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let number = match self {
            Self::DefineStorage(_) => Number::DefineStorage,
            Self::Start(_) => Number::Start,
            Self::End(_) => Number::End,
            Self::Remove(_) => Number::Remove,
            Self::Room(_) => Number::Room,
            Self::Locations(_) => Number::Locations,
            Self::OpenSession(_) => Number::OpenSession,
            Self::FinishedSession(_) => Number::FinishedSession,
            Self::Request(_) => Number::Request,
            Self::Delete(_) => Number::Delete,
            Self::DefineInstance(_) => Number::DefineInstance,
        };
        out.push(number as u8);
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut put = Put(out);
        match self {
            Self::DefineStorage(op) => op.encode(&mut put),
            Self::Start(op) => op.encode(&mut put),
            Self::End(op) => op.encode(&mut put),
            Self::Remove(op) | Self::Delete(op) => op.encode(&mut put),
            Self::DefineInstance(op) => op.encode(&mut put),
            Self::Room(op) => op.encode(&mut put),
            Self::Locations(op) => op.encode(&mut put),
            Self::OpenSession(op) => op.encode(&mut put),
            Self::FinishedSession(op) => op.encode(&mut put),
            Self::Request(op) => op.encode(&mut put),
        }
        let length = out.len() - length_at - 4;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes the operations out of a batch, one result each: one that is not understood does not
    /// cost the others.
    pub(crate) fn decode_all(bytes: &[u8]) -> Vec<Decoded<Self>> {
        let mut take = Take(bytes);
        let mut ops = Vec::new();
        while !take.0.is_empty() {
            let framed = take.u8().and_then(|number| Ok((number, take.bytes()?)));
            match framed {
                Ok((number, body)) => ops.push(Self::decode(number, body)),
                Err(error) => {
                    ops.push(Err(error));
                    break;
                }
            }
        }
        ops
    }

    fn decode(number: u8, body: &[u8]) -> Decoded<Self> {
        const DEFINE_STORAGE: u8 = Number::DefineStorage as u8;
        const START: u8 = Number::Start as u8;
        const END: u8 = Number::End as u8;
        const REMOVE: u8 = Number::Remove as u8;
        const LOCATIONS_EACH: u8 = Number::LocationsEach as u8;
        const LOCATIONS: u8 = Number::Locations as u8;
        const ROOM: u8 = Number::Room as u8;
        const OPEN_SESSION: u8 = Number::OpenSession as u8;
        const FINISHED_SESSION: u8 = Number::FinishedSession as u8;
        const REQUEST: u8 = Number::Request as u8;
        const DELETE: u8 = Number::Delete as u8;
        const DEFINE_INSTANCE: u8 = Number::DefineInstance as u8;
        let mut take = Take(body);
        let op = match number {
            DEFINE_STORAGE => DefineStorage::decode(&mut take).map(Self::DefineStorage),
            START => Start::decode(&mut take).map(Self::Start),
            END => End::decode(&mut take).map(Self::End),
            REMOVE => Remove::decode(&mut take).map(Self::Remove),
            LOCATIONS_EACH => Locations::decode_each(&mut take).map(Self::Locations),
            ROOM => Room::decode(&mut take).map(Self::Room),
            LOCATIONS => Locations::decode(&mut take).map(Self::Locations),
            OPEN_SESSION => OpenSession::decode(&mut take).map(Self::OpenSession),
            FINISHED_SESSION => FinishedSession::decode(&mut take).map(Self::FinishedSession),
            REQUEST => Request::decode(&mut take).map(Self::Request),
            DELETE => Remove::decode(&mut take).map(Self::Delete),
            DEFINE_INSTANCE => DefineInstance::decode(&mut take).map(Self::DefineInstance),
            unknown => Err(DecodeError::UnknownOperation(unknown)),
        }?;
        take.end()?;
        Ok(op)
    }
}

#[cfg(test)]
mod tests {
    use kvcm_index::{Grant, State};
    use kvcm_journal::RequestKey;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        RequestOutcome, Skipped, answered::StartedBefore, mask::Success, session_id::SessionId,
    };

    fn grant() -> impl Strategy<Value = Grant> {
        (0u64..1 << 53, any::<u64>()).prop_map(|(epoch, counter)| Grant { epoch, counter })
    }

    fn session() -> impl Strategy<Value = SessionId> {
        any::<u64>().prop_map(|seed| SessionId::random(&mut fastrand::Rng::with_seed(seed)))
    }

    fn keys() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(any::<i64>(), 0..70)
    }

    fn start() -> impl Strategy<Value = Start> {
        let groups = prop::collection::vec(".{0,5}", 0..3);
        let of_keys = prop::collection::vec(any::<u16>(), 0..5);
        let text = ".{0,9}";
        let numbers = (any::<u64>(), any::<u32>(), any::<u16>());
        (session(), text, grant(), numbers, groups, of_keys, keys()).prop_map(
            |(session, instance, grant, numbers, groups, group_of_key, keys)| Start {
                session,
                instance,
                fingerprint: numbers.0,
                grant,
                life_ms: numbers.1,
                storage: numbers.2,
                groups,
                group_of_key,
                keys,
            },
        )
    }

    fn success() -> impl Strategy<Value = Success> {
        prop::collection::vec(any::<bool>(), 0..130)
            .prop_map(|bools| Success::new(crate::Mask::Bools(&bools), bools.len()).unwrap())
    }

    fn in_snapshots() -> impl Strategy<Value = Op> {
        let states = prop::sample::select(vec![State::Writing, State::Serving, State::Deleting]);
        let placed = prop::collection::vec(any::<(u32, i64)>(), 0..9);
        prop_oneof![
            (start(), states, placed).prop_map(|(start, state, placed)| {
                let (positions, keys): (Vec<_>, _) = placed.into_iter().unzip();
                Op::Locations(Locations {
                    instance: start.instance,
                    fingerprint: start.fingerprint,
                    grant: start.grant,
                    storage: start.storage,
                    group: start.groups.concat(),
                    state,
                    positions: positions.into_iter().collect(),
                    keys,
                })
            }),
            start().prop_map(|start| Op::OpenSession(OpenSession {
                session: start.session,
                instance: start.instance,
                fingerprint: start.fingerprint,
                grant: start.grant,
                life_ms: start.life_ms,
                keys: start.keys,
            })),
            (start(), any::<u64>()).prop_map(|(start, keys)| Op::Room(Room {
                instance: start.instance,
                fingerprint: start.fingerprint,
                keys,
            })),
            (session(), success()).prop_map(|(session, success)| Op::FinishedSession(
                FinishedSession { session, success }
            )),
        ]
    }

    fn request() -> impl Strategy<Value = Request> {
        let skipped = prop_oneof![
            (0usize..1 << 20).prop_map(Skipped::Offset),
            prop::collection::vec(any::<bool>(), 0..20).prop_map(Skipped::Bools),
        ];
        let outcome = prop_oneof![
            Just(RequestOutcome::Done),
            ".{0,9}".prop_map(|why| RequestOutcome::BadMask(why.into())),
            (session(), grant(), any::<u16>(), skipped).prop_map(
                |(session, grant, storage, skipped)| {
                    RequestOutcome::Started(Box::new(StartedBefore {
                        session,
                        grant,
                        storage,
                        skipped,
                    }))
                }
            ),
        ];
        (any::<(u128, u64)>(), outcome).prop_map(|((id, body), outcome)| Request {
            key: RequestKey { id, body },
            outcome,
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        let ending = prop_oneof![
            Just(Ending::Expired),
            Just(Ending::BadMask),
            success().prop_map(Ending::Finished),
        ];
        let removed = (grant(), keys()).prop_map(|(grant, keys)| Removed { grant, keys });
        prop_oneof![
            (any::<u16>(), ".{0,20}")
                .prop_map(|(number, config)| Op::DefineStorage(DefineStorage { number, config })),
            ".{0,20}".prop_map(|config| Op::DefineInstance(DefineInstance { config })),
            start().prop_map(Op::Start),
            (session(), ending).prop_map(|(session, ending)| Op::End(End { session, ending })),
            in_snapshots(),
            request().prop_map(Op::Request),
            (
                ".{0,9}",
                prop::collection::vec(removed, 0..3),
                any::<bool>()
            )
                .prop_map(|(instance, removed, gone)| {
                    let remove = Remove { instance, removed };
                    if gone {
                        Op::Remove(remove)
                    } else {
                        Op::Delete(remove)
                    }
                }),
        ]
    }

    proptest! {
        #[test]
        fn operations_round_trip(ops in prop::collection::vec(op(), 0..5)) {
            let mut bytes = Vec::new();
            ops.iter().for_each(|op| op.encode(&mut bytes));
            let decoded: Result<Vec<_>, _> = Op::decode_all(&bytes).into_iter().collect();
            prop_assert_eq!(decoded, Ok(ops));
        }

        #[test]
        fn damage_is_an_error_or_another_operation_never_a_panic(
            op in op(), at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()
        ) {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            let whole = bytes.clone();
            bytes.truncate(cut.index(whole.len()));
            let torn = Op::decode_all(&bytes);
            prop_assert!(torn.is_empty() || torn.iter().any(Result::is_err));
            let mut bytes = whole;
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Op::decode_all(&bytes);
        }
    }

    #[test]
    fn an_unknown_operation_does_not_cost_its_neighbours() {
        let end = Op::End(End {
            session: SessionId::random(&mut fastrand::Rng::with_seed(1)),
            ending: Ending::Expired,
        });
        let mut bytes = Vec::new();
        end.encode(&mut bytes);
        bytes.extend_from_slice(&[99, 2, 0, 0, 0, 7, 7]);
        end.encode(&mut bytes);
        let expected = [
            Ok(end.clone()),
            Err(DecodeError::UnknownOperation(99)),
            Ok(end),
        ];
        assert_eq!(Op::decode_all(&bytes), expected);
    }

    /// The bytes of version 1, kept for ever: data written by an old program must stay readable.
    #[test]
    fn version_1_reads_and_writes_its_fixture() {
        let session: SessionId = "abcdefghijklmnopqrstuvwxyz012345".parse().unwrap();
        let grant = Grant {
            epoch: 7,
            counter: 9,
        };
        let ops = [
            Op::DefineStorage(DefineStorage {
                number: 3,
                config: "{}".into(),
            }),
            Op::Start(Start {
                session,
                instance: "i".into(),
                fingerprint: 5,
                grant,
                life_ms: 1000,
                storage: 3,
                groups: vec!["g".into()],
                group_of_key: vec![],
                keys: vec![-1],
            }),
            Op::End(End {
                session,
                ending: Ending::Finished(Success::new(crate::Mask::Offset(1), 1).unwrap()),
            }),
            Op::Remove(Remove {
                instance: "i".into(),
                removed: vec![Removed {
                    grant,
                    keys: vec![-1],
                }],
            }),
            Op::Locations(Locations {
                instance: "i".into(),
                fingerprint: 5,
                grant,
                storage: 3,
                group: "g".into(),
                state: State::Serving,
                positions: [8].into_iter().collect(),
                keys: vec![-1],
            }),
            Op::OpenSession(OpenSession {
                session,
                instance: "i".into(),
                fingerprint: 5,
                grant,
                life_ms: 1000,
                keys: vec![-1],
            }),
            Op::FinishedSession(FinishedSession {
                session,
                success: Success::nothing(1),
            }),
        ];
        let fixture = include_str!("../../tests/fixtures/ops_v1.hex").trim();
        let decoded: Result<Vec<_>, _> = Op::decode_all(&unhex(fixture)).into_iter().collect();
        assert_eq!(decoded.as_deref(), Ok(&ops[..]));
        // Locations are written in another way since.
        let mut bytes = Vec::new();
        let others = ops.iter().filter(|op| !matches!(op, Op::Locations(_)));
        others.for_each(|op| op.encode(&mut bytes));
        assert_eq!(hex(&bytes), fixture.replace(LOCATIONS_V1, ""));
    }

    const LOCATIONS_V1: &str = "053900000001000000690500000000000000070000000000000009000000000000\
                                000300010000006703010000000800000001000000ffffffffffffffff";

    /// Added to version 1 later.
    #[test]
    fn locations_by_runs_and_room_read_and_write_their_fixture() {
        let locations = Op::Locations(Locations {
            instance: "i".into(),
            fingerprint: 5,
            grant: Grant {
                epoch: 7,
                counter: 9,
            },
            storage: 3,
            group: "g".into(),
            state: State::Serving,
            positions: [8, 9, 2].into_iter().collect(),
            keys: vec![-1, 1, 2],
        });
        let room = Op::Room(Room {
            instance: "i".into(),
            fingerprint: 5,
            keys: 3,
        });
        let mut bytes = Vec::new();
        room.encode(&mut bytes);
        locations.encode(&mut bytes);
        assert_eq!(
            hex(&bytes),
            "1715000000010000006905000000000000000300000000000000\
             16550000000100000069050000000000000007000000000000000900000000000000030001000000670302\
             000000080000000200000002000000010000000300\
             0000ffffffffffffffff01000000000000000200000000000000"
        );
        assert_eq!(Op::decode_all(&bytes), [Ok(room), Ok(locations)]);
    }

    /// Added to version 1 later.
    #[test]
    fn requests_read_and_write_their_fixture() {
        let key = RequestKey {
            id: (3 << 64) | 1,
            body: 7,
        };
        let before = StartedBefore {
            session: "abcdefghijklmnopqrstuvwxyz012345".parse().unwrap(),
            grant: Grant {
                epoch: 7,
                counter: 9,
            },
            storage: 3,
            skipped: Skipped::Bools(vec![true, false, true]),
        };
        let outcomes = [
            RequestOutcome::Done,
            RequestOutcome::Started(Box::new(before)),
            RequestOutcome::BadMask("no".into()),
        ];
        let ops = outcomes.map(|outcome| Op::Request(Request { key, outcome }));
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut bytes));
        let decoded: Result<Vec<_>, _> = Op::decode_all(&bytes).into_iter().collect();
        assert_eq!(decoded.as_deref(), Ok(&ops[..]));
        assert_eq!(
            hex(&bytes),
            include_str!("../../tests/fixtures/requests_v1.hex").trim()
        );
    }

    /// Added to version 1 later.
    #[test]
    fn deletions_and_instances_read_and_write_their_fixture() {
        let instance = Op::DefineInstance(DefineInstance {
            config: "{}".into(),
        });
        let delete = Op::Delete(Remove {
            instance: "i".into(),
            removed: vec![Removed {
                grant: Grant {
                    epoch: 7,
                    counter: 9,
                },
                keys: vec![-1],
            }],
        });
        let mut bytes = Vec::new();
        delete.encode(&mut bytes);
        instance.encode(&mut bytes);
        assert_eq!(
            hex(&bytes),
            "142500000001000000690100000007000000000000000900000000000000\
             01000000ffffffffffffffff1506000000020000007b7d"
        );
        assert_eq!(Op::decode_all(&bytes), [Ok(delete), Ok(instance)]);
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
        digits
            .map(|digits| u8::from_str_radix(digits, 16).unwrap())
            .collect()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
