//! Coordination of the processes of one host through a directory.
