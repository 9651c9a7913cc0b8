"""One turn of a chat: its run, readers, leases, history and recovery."""
