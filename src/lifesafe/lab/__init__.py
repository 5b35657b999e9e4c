"""Everything that only compares methods, simulates machines or makes data; no other room imports it."""
