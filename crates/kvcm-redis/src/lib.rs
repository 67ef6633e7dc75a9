//! Connecting to Redis: credentials, scripts, error classes.
