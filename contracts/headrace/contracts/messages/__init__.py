"""Questions and answers, orders and submissions: messages that are not facts."""
