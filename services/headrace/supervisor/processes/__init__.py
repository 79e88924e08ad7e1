"""The processes of an installation: their commands, accounts and logs, whether they are ready, and how they are kept alive."""
