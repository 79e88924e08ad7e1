"""Answers from the books: usage, invoices, exports, history."""
