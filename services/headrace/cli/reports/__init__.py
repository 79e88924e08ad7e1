"""Commands about the books: usage and statements."""
