"""A little shop with real workers: `shop` has its tasks, `day` lives through a day of it."""
