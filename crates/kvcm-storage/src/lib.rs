//! Data storage backends: naming, availability, deletion.
