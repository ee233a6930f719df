"""The load: producers, tasks, streams by hand, SQL clients, operators and zombies, each in a process of its own."""
