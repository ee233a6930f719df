"""Streams over HTTP, for workers in any language: the third face of a stream, beside `async for` and `for`.

Read `session` first: one stream, and what its client has. `sessions` has all of a server, `answer` writes one
to its connection, `lines` says how. Claiming, capacity and leases are the queue's own; only that leases are
kept as long as a client somewhere else shows that it lives is added here.
"""
