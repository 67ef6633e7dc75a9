//! Clusters of real processes for tests and demonstrations.
