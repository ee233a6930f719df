"""Finding the database of a queue, and making sure that this Holdfast can work with it. Blocks."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.embedded import Database, database_or_embedded
from holdfast.engine import installer
from holdfast.engine.connect import connect

logger: Final = logging.getLogger("holdfast.queue")


def reach(dsn: str | None, schema: str) -> Database:
    """The database of the argument, of the environment, or the embedded one; its schema fits this release.

    The embedded one is ours: what is missing is installed. Elsewhere that is for a person to do, and
    SchemaMissing, SchemaTooOld or SchemaTooNew say so; DatabaseUnavailable if nobody answers.
    """
    database = database_or_embedded(dsn, log=logger.info)
    try:
        with connect(database.dsn, "holdfast queue") as conn:
            if database.server is not None:
                installer.install(conn, schema)
            else:
                installer.require_current(conn, schema)
    except BaseException:
        database.close()
        raise
    return database
