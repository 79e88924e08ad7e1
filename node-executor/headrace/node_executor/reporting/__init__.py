"""Facts, logs and traces of this node, and its connection to the bus."""
