"""Commands about the ledger: records, past states, verification, seals and the archive."""
