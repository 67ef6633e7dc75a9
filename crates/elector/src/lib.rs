//! Leader election: a pure core, the futures that drive it, and the gate.
