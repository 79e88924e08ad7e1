"""Answers out of the books: usage, invoices, exports, history."""
