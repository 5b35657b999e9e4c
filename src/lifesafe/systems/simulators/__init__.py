"""The tasks that lifesafe brings along."""
