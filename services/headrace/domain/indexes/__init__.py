"""Indexes that the fold keeps beside the entities, so that a decision does not look at all of them. Pure."""
