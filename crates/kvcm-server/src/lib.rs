//! The kvcm server: configuration, services, composition.
