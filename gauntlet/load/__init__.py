"""The load: producers, tasks, streams by hand, SQL clients, operators and zombies, a process each."""
