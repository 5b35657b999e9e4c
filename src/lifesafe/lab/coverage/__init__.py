"""How often the search keeps its promises, and what it gains, on machines whose truth is known."""
