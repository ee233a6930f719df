"""Every exception Holdfast raises on purpose.

HoldfastError
├── InvalidArgument (ValueError)    a value no job, queue or lease can have
│   ├── QueryError                  a query for jobs that cannot be read
│   └── PayloadError                content PostgreSQL cannot store, or larger than the cap
├── JobNotFound (KeyError)          no live or archived job has this id
├── JobExists                       the id is taken, by a live or a finished job
├── JobFailed                       the job whose result was awaited is dead
├── JobCancelled                    the job was cancelled, or is to stop
├── NoCurrentJob (RuntimeError)     there is no job here to ask about
├── UnknownTask (KeyError)          no task of this name is registered
├── TaskExists                      another task has this name already
├── UndecodableArguments            what is stored as a job's arguments does not fit its task
├── UndecodableResult               what is stored as a job's result does not fit its task
├── WrongState                      the job is not in a state this operation starts from
├── LeaseLost                       the caller does not hold the job (any more)
├── ResourceBusy                    another job holds the resource
├── QueueClosed                     the queue is not open (yet, or any more)
├── StreamEnded                     the stream has ended
├── SchemaMissing                   Holdfast is not installed in this database
├── SchemaTooNew                    the database was installed by a newer Holdfast
├── SchemaTooOld                    the database needs `holdfast migrate up`
├── InstallationRefused             something stands in the way of `holdfast migrate up`
├── DatabaseUnavailable             no answer in time, or no connection
└── EmbeddedError                   the private PostgreSQL cannot be had here
    ├── BinariesNotFound            no PostgreSQL programs on this machine
    └── DirectoryUnusable           the data directory cannot be used
"""


class HoldfastError(Exception):
    """The root of the tree above."""


class InvalidArgument(HoldfastError, ValueError):
    """A value that no job, queue, lease or setting can have."""


class PayloadError(InvalidArgument):
    """Content that PostgreSQL cannot store, or that is larger than the cap."""


class QueryError(InvalidArgument):
    """A query for jobs that cannot be read: `piece` is what is wrong, `position` where it begins, from 0."""

    def __init__(self, message: str, piece: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.piece = piece
        self.position = position


class JobNotFound(HoldfastError, KeyError):
    """No live or archived job has this id."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class JobExists(HoldfastError):
    """The id is taken, by a live or by a finished job."""


class JobFailed(HoldfastError):
    """The job whose result was awaited is dead: no attempts are left, or its error was permanent.

    `message` and `traceback` are those of the last attempt, `attempts` is how many failed.
    """

    def __init__(
        self,
        message: str,
        traceback: str | None = None,
        attempts: int = 0,
        *,
        job_id: str | None = None,
        task: str | None = None,
    ) -> None:
        self.message = message
        self.traceback = traceback
        self.attempts = attempts
        self.job_id = job_id
        self.task = task
        super().__init__(message, traceback, attempts)
        if traceback:
            self.add_note(f"The traceback of the last attempt, where it ran:\n{traceback}")

    def __str__(self) -> str:
        of_task = f" ({self.task})" if self.task else ""
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        return f"job {self.job_id}{of_task} is dead after {times}: {self.message}"


class JobCancelled(HoldfastError):
    """The job was cancelled; in a handler: it is to stop now."""


class NoCurrentJob(HoldfastError, RuntimeError):
    """Nothing here runs on behalf of a job."""


class UnknownTask(HoldfastError, KeyError):
    """No task of this name is registered."""

    def __str__(self) -> str:  # as for JobNotFound
        return str(self.args[0]) if self.args else ""


class TaskExists(HoldfastError):
    """Another task has this name already."""


class UndecodableArguments(HoldfastError):
    """What is stored as a job's arguments does not fit the task it asks for."""


class UndecodableResult(HoldfastError):
    """What is stored as a job's result does not fit what its task says it returns."""


class WrongState(HoldfastError):
    """The job is not in a state this operation starts from."""


class LeaseLost(HoldfastError):
    """The caller does not hold the job, or holds it no more."""


class ResourceBusy(HoldfastError):
    """Another job holds the resource."""


class QueueClosed(HoldfastError):
    """The queue was used before it was opened or after it was closed."""


class StreamEnded(HoldfastError):
    """The stream has ended; open another."""


class SchemaMissing(HoldfastError):
    """Holdfast is not installed in this database."""


class SchemaTooNew(HoldfastError):
    """The database was installed by a newer Holdfast than this code."""


class SchemaTooOld(HoldfastError):
    """The database was installed by an older Holdfast and needs `holdfast migrate up`."""


class InstallationRefused(HoldfastError):
    """Something stands in the way of installing or upgrading; the message names it. Nothing was changed."""


class DatabaseUnavailable(HoldfastError):
    """The database gave no answer in time, or no connection could be made."""


class EmbeddedError(HoldfastError):
    """The private PostgreSQL cannot be had here."""


class BinariesNotFound(EmbeddedError):
    """No PostgreSQL programs were found on this machine."""


class DirectoryUnusable(EmbeddedError):
    """The data directory cannot be used."""
