"""Messages that are not facts: submissions, orders, queries and answers."""
