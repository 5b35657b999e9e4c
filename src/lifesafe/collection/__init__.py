"""Data made in simulation: a learner swept over cost limits, its whole training logged."""
