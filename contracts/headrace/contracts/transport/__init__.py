"""What all users of NATS share: subjects, encoding, server addresses, TLS."""
