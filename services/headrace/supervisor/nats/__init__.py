"""Supervision of NATS servers: full disks, replicas that fell behind, streams without a leader, and what the streams still hold."""
