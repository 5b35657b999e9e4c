"""Learning from logs: policies that are told which returns to earn."""
