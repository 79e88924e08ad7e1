"""Commands about documents, queues, pools and nodes, and what would happen if they changed."""
