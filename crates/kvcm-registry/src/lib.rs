//! Storages, instance groups, instances: a state machine over a journal.
