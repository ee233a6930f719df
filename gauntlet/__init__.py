"""The gauntlet: load, faults, and a checker that reads what happened. `make gauntlet` runs it."""
