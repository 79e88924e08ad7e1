"""The entities of the state, and the arithmetic on them that the fold needs. Pure."""
