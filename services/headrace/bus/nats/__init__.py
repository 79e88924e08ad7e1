"""The log, requests and objects on NATS, and the configuration of its servers."""
