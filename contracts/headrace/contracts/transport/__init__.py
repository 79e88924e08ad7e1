"""What is shared by all who use the bus: subjects, encoding, addresses, TLS."""
