"""Pure functions of constants: what the paper's theorems bound and ask for; each cites its theorem."""
