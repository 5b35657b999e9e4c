"""Everything that only compares methods, simulates machines or makes data; no other room imports it."""

from lifesafe.lab import methods as methods  # so that policies of all methods can be loaded
