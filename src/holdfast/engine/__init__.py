"""The SQL engine, readable with psql alone, and the Python that installs it.

source       what this release brings: the SQL files, read and fingerprinted
status       what a database has, compared with that
script       the same installation as text that psql can run
installer    install, status, script, require_current: the way in
connect      one connection for a command
blockers     who keeps a lock that an installation waits for
dump         the shape of an installation as text, for `schema.sql`
"""
