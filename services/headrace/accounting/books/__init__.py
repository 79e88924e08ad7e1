"""The books as a function of the ledger: rows, meters, charges. Pure."""
