//! KV-cache traces: a reader of the JSON lines format and a seeded generator.
