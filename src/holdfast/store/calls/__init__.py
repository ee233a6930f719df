"""Every public function of the engine as a pure function that describes its call, one module for each theme.

Both stores turn these into methods of the same names. `timeout_s` is the deadline of the one call, getting a
connection included; None means the store's own.
"""
