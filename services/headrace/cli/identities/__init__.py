"""Commands about tokens, users and tenants: who may do what, and erasure."""
