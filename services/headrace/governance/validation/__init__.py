"""Checks of a set of documents before it is applied: references, limits, reservations, supply. Pure."""
