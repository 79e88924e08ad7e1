"""The state: everything that is true after a prefix of the ledger, and the arithmetic on it that the fold and the rules share. Pure."""
