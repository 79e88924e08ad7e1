"""`headrace top`: the cluster in a terminal, live and at any earlier record. `screen` draws (Textual), `overview` is what it draws."""
