"""Supervision of NATS servers: full disks, replicas that fell behind, streams without a leader."""
