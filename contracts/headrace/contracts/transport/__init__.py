"""What all users of NATS share: subjects, encoding, digests of submissions, server addresses, TLS."""
