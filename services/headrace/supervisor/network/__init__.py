"""Addresses and encryption: ports, sockets, certificates, and the configuration of the gateway."""
