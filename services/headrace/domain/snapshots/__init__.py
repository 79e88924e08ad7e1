"""The state as bytes and back, and copies of it."""
