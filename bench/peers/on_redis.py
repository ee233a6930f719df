"""The contenders on Redis, for context: they promise less, so they are no rivals."""

from __future__ import annotations

from bench.peers.peer import Peer, Setting

_CELERY = Peer(
    key="celery",
    title="Celery",
    adapter="celery_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "pool",
            "prefork",
            "https://docs.celeryq.dev/en/stable/userguide/workers.html#concurrency",
            "a child a process; its default, other pools not tried",
        ),
        Setting(
            "worker_prefetch_multiplier",
            128,
            "https://docs.celeryq.dev/en/stable/userguide/optimizing.html#prefetch-limits",
            "many short tasks",
        ),
        Setting(
            "task_ignore_result",
            True,
            "https://docs.celeryq.dev/en/stable/userguide/tasks.html#ignore-results-you-don-t-want",
            "no results wanted",
        ),
        Setting(
            "without_gossip_mingle_heartbeat",
            True,
            "https://docs.celeryq.dev/en/stable/reference/cli.html#celery-worker",
            "no talk between workers",
        ),
    ),
    jobs=5_000,
    singles=2_000,
    durability="in Redis' memory; acknowledged before it runs",
    history="nothing",
    supervises=True,
)

_DRAMATIQ = Peer(
    key="dramatiq",
    title="Dramatiq",
    adapter="dramatiq_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "threads", 8, "https://dramatiq.io/guide.html#workers", "threads of each process; its default"
        ),
        Setting(
            "dramatiq_queue_prefetch",
            128,
            "https://dramatiq.io/advanced.html#prefetch-limits",
            "messages fetched ahead",
        ),
    ),
    jobs=10_000,
    singles=2_000,
    durability="in Redis' memory; acknowledged after it ran",
    history="nothing",
    supervises=True,
)

_HUEY = Peer(
    key="huey",
    title="Huey",
    adapter="huey_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "workers", 4, "https://huey.readthedocs.io/en/latest/consumer.html", "threads of each process"
        ),
        Setting(
            "worker_type",
            "thread",
            "https://huey.readthedocs.io/en/latest/consumer.html#worker-types",
            "its default; others not tried",
        ),
        Setting("results", False, "https://huey.readthedocs.io/en/latest/api.html#Huey", "no results wanted"),
    ),
    jobs=10_000,
    singles=2_000,
    durability="in Redis' memory; at most once",
    history="nothing",
)

_RQ = Peer(
    key="rq",
    title="RQ",
    adapter="rq_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "worker", "SimpleWorker", "https://python-rq.org/docs/workers/#worker-classes", "no fork a job"
        ),
        Setting("result_ttl", 0, "https://python-rq.org/docs/results/", "no results wanted"),
        Setting(
            "bulk_batch", 1000, "https://python-rq.org/docs/#bulk-job-enqueueing", "jobs of one enqueue_many"
        ),
    ),
    jobs=5_000,
    singles=2_000,
    durability="in Redis' memory",
    history="nothing",
)

_ARQ = Peer(
    key="arq",
    title="arq",
    adapter="arq_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "max_jobs",
            100,
            "https://arq-docs.helpmanual.io/#arq.worker.Worker",
            "jobs at a time in each process; 10 unless told",
        ),
        Setting(
            "poll_delay",
            0.01,
            "https://arq-docs.helpmanual.io/#arq.worker.Worker",
            "seconds; 0.5 unless told",
        ),
        Setting("keep_result", 0, "https://arq-docs.helpmanual.io/#arq.worker.func", "no results wanted"),
        Setting(
            "bulk_batch",
            100,
            "https://arq-docs.helpmanual.io/#arq.connections.ArqRedis.enqueue_job",
            "calls at a time",
        ),
    ),
    jobs=5_000,
    singles=2_000,
    durability="in Redis' memory",
    history="nothing",
)

_TASKIQ = Peer(
    key="taskiq",
    title="taskiq",
    adapter="taskiq_adapter.py",
    broker="redis",
    settings=(
        Setting(
            "broker",
            "ListQueueBroker",
            "https://taskiq-python.github.io/available-components/brokers.html",
            "no acknowledgement, so less to do; streams not tried",
        ),
        Setting(
            "max_async_tasks",
            200,
            "https://taskiq-python.github.io/guide/cli.html",
            "jobs at a time in each process",
        ),
        Setting(
            "max_prefetch", 200, "https://taskiq-python.github.io/guide/cli.html", "messages fetched ahead"
        ),
        Setting(
            "bulk_batch", 100, "https://taskiq-python.github.io/guide/getting-started.html", "calls at a time"
        ),
    ),
    jobs=10_000,
    singles=2_000,
    durability="in Redis' memory; at most once",
    history="nothing",
    supervises=True,
)

PEERS: tuple[Peer, ...] = (
    _CELERY,
    _DRAMATIQ,
    _HUEY,
    _RQ,
    _ARQ,
    _TASKIQ,
)
