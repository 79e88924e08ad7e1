"""The generated descriptions of documents, facts, subjects and the API."""
