"""Governance documents: their model, and reading and writing them as YAML."""
