"""Starts the processes of an installation on one machine, checks that they are ready, keeps them running and stops them."""
