//! The protocol: messages, services and their JSON mapping, generated from proto/.
