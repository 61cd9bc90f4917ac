//! What holds the simulation against the machine: `probe` describes its devices, `calibrate` prices the engine's work on
//! it, and `compare` runs a scenario on real servers and in simulation.
