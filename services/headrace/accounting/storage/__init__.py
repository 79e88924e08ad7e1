"""The books in PostgreSQL: schema, statements, transactions, and the copy of the ledger."""
