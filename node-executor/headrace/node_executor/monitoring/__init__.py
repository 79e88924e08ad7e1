"""What is measured while leases run: devices, disk and memory in use, new checkpoints. Reports to the core and onto the bus."""
