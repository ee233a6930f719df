"""What a run stands on: a server of its own, ways to it that can be cut, processes that can be killed."""
