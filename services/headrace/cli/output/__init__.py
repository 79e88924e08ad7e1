"""Forms of answers: tables aligned for people, JSON for programs, and what may be written to a terminal or file."""
