"""The contenders on PostgreSQL, with settings from their documentation, chosen for many small jobs."""

from __future__ import annotations

from bench.peers.peer import Peer, Setting

_HOLDFAST = Peer(
    key="holdfast",
    title="Holdfast",
    adapter="holdfast_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "concurrency",
            3000,
            "docs/guides/run-workers.md",
            "jobs at a time in each process; tried in turns: 1000, 2000, 3000, 4000; before that 100, 500",
        ),
        Setting("bulk_batch", 10_000, "docs/guides/tasks.md", "calls of one enqueue_many"),
    ),
    jobs=400_000,
    singles=2_000,
    durability="committed",
    history="kept in the archive",
    unfinished="select count(*) from holdfast.jobs",
    supervises=True,
)

_PGQUEUER = Peer(
    key="pgqueuer",
    title="PgQueuer",
    adapter="pgqueuer_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "batch_size",
            1000,
            "https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
            "jobs a dequeue and a flush; 10 unless told; tried: 1000, 2000",
        ),
        Setting(
            "bulk_batch",
            1000,
            "https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
            "jobs of one enqueue call, in lists",
        ),
        Setting(
            "autovac",
            True,
            "https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
            "the vacuum settings it recommends",
        ),
        Setting(
            "log_aggregation_interval",
            0,
            "https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
            "statistics when somebody asks",
        ),
        Setting(
            "pool",
            0,
            "https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
            "connections; one, as recommended for workers",
        ),
        Setting(
            "driver",
            "asyncpg, uvloop",
            "https://pgqueuer.readthedocs.io/en/latest/comparisons/benchmarks/",
            "the quickest driver of its own benchmarks",
        ),
    ),
    jobs=50_000,
    singles=2_000,
    durability="committed",
    history="log rows kept, without payload",
    unfinished="select count(*) from pgqueuer",
)

_PROCRASTINATE = Peer(
    key="procrastinate",
    title="Procrastinate",
    adapter="procrastinate_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "concurrency",
            20,
            "https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html",
            "jobs at a time in each process",
        ),
        Setting(
            "pool",
            20,
            "https://procrastinate.readthedocs.io/en/stable/howto/basics/connector.html",
            "connections, so that fetching and finishing overlap",
        ),
        Setting(
            "bulk_batch",
            1000,
            "https://procrastinate.readthedocs.io/en/stable/howto/basics/batch_defer.html",
            "jobs of one batch_defer_async",
        ),
    ),
    jobs=4_000,
    singles=1_000,
    durability="committed",
    history="kept, with every event",
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
)

_CHANCY = Peer(
    key="chancy",
    title="Chancy",
    adapter="chancy_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "concurrency",
            500,
            "https://tkte.ch/chancy/guide/queues.html",
            "jobs at a time in each process",
        ),
        Setting(
            "executor",
            "Async",
            "https://tkte.ch/chancy/chancy.executors.asyncex.html",
            "no process or thread a job",
        ),
        Setting(
            "eager_polling",
            True,
            "https://tkte.ch/chancy/guide/queues.html",
            "look for jobs as soon as one has ended",
        ),
        Setting(
            "polling_interval",
            1,
            "https://tkte.ch/chancy/guide/queues.html",
            "seconds; notifications come sooner",
        ),
        Setting(
            "send_outgoing_interval",
            0.1,
            "https://tkte.ch/chancy/chancy.worker.html",
            "seconds between writing completions; 1 unless told",
        ),
        Setting(
            "bulk_batch",
            1000,
            "https://tkte.ch/chancy/guide/jobs.html",
            "jobs of one transaction of push_many",
        ),
    ),
    jobs=20_000,
    singles=1_000,
    durability="committed; completions up to an interval later",
    history="kept",
    unfinished="select count(*) from chancy_jobs where state not in ('succeeded', 'failed')",
)

_AWA = Peer(
    key="awa",
    title="awa",
    adapter="awa_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "max_workers", 500, "https://pypi.org/project/awa-pg/0.6.9/", "jobs at a time in each process"
        ),
        Setting(
            "claimers",
            1,
            "https://pypi.org/project/awa-pg/0.6.9/",
            "claim loops of the queue; tried: 1, 4, once each",
        ),
        Setting("claim_batch_size", 500, "https://pypi.org/project/awa-pg/0.6.9/", "jobs a claim"),
        Setting("poll_interval_ms", 50, "https://pypi.org/project/awa-pg/0.6.9/", "200 unless told"),
        Setting("max_connections", 20, "https://pypi.org/project/awa-pg/0.6.9/", "10 unless told"),
        Setting(
            "bulk_batch", 10_000, "https://pypi.org/project/awa-pg/0.6.9/", "jobs of one enqueue_many_copy"
        ),
    ),
    jobs=50_000,
    singles=1_000,
    durability="committed",
    history="pruned within seconds",
    unfinished=(
        # Not by the view awa.jobs, which takes seconds: what is ready, or was, less what has a receipt.
        "select (select count(*) from awa.ready_entries)"
        " - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)"
    ),
)

_SAQ = Peer(
    key="saq",
    title="SAQ (PostgreSQL)",
    adapter="saq_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "concurrency",
            20,
            "https://saq-py.readthedocs.io/en/latest/worker.html",
            "jobs at a time in each process",
        ),
        Setting(
            "pool",
            20,
            "https://saq-py.readthedocs.io/en/latest/queue.html",
            "connections; 4 to 20 unless told",
        ),
        Setting(
            "dequeue_timeout",
            0,
            "https://saq-py.readthedocs.io/en/latest/worker.html",
            "wait for notifications",
        ),
        Setting(
            "bulk_batch", 500, "https://saq-py.readthedocs.io/en/latest/queue.html", "enqueue calls at a time"
        ),
    ),
    jobs=4_000,
    singles=1_000,
    durability="committed",
    history="kept for ten minutes",
    unfinished="select count(*) from saq_jobs where status not in ('complete', 'failed', 'aborted')",
)

_DBOS = Peer(
    key="dbos",
    title="DBOS",
    adapter="dbos_adapter.py",
    broker="postgresql",
    settings=(
        Setting(
            "polling_interval_sec",
            0.01,
            "https://docs.dbos.dev/python/reference/queues",
            "1 unless told",
        ),
        Setting(
            "worker_concurrency",
            200,
            "https://docs.dbos.dev/python/reference/queues",
            "workflows at a time in each process; without it the first process takes all",
        ),
        Setting(
            "sys_db_pool_size",
            20,
            "https://docs.dbos.dev/python/reference/configuration",
            "connections",
        ),
        Setting(
            "bulk_batch",
            1000,
            "https://docs.dbos.dev/python/reference/client",
            "workflows of one transaction of enqueue_in_transaction",
        ),
    ),
    jobs=3_000,
    singles=500,
    durability="committed",
    history="kept",
    unfinished="select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')",
)

_GRAPHILE_WORKER = Peer(
    key="graphile-worker",
    title="graphile-worker (Node)",
    adapter="graphile_worker_adapter.mjs",
    broker="postgresql",
    settings=(
        Setting(
            "concurrentJobs", 24, "https://worker.graphile.org/docs/performance", "as in its own figures"
        ),
        Setting("maxPoolSize", 25, "https://worker.graphile.org/docs/performance", "as in its own figures"),
        Setting(
            "localQueueSize",
            10_000,
            "https://worker.graphile.org/docs/performance",
            "500 in its own figures; tried three times each: 5000, 10000, 20000; before that 500, 2000",
        ),
        Setting(
            "completeJobBatchDelay",
            0,
            "https://worker.graphile.org/docs/performance",
            "as in its own figures",
        ),
        Setting("bulk_batch", 10_000, "https://worker.graphile.org/docs/sql-add-job", "jobs of one add_jobs"),
    ),
    jobs=400_000,
    singles=2_000,
    durability="committed",
    history="nothing, deleted",
    unfinished="select count(*) from graphile_worker._private_jobs",
)

_PG_BOSS = Peer(
    key="pg-boss",
    title="pg-boss (Node)",
    adapter="pg_boss_adapter.mjs",
    broker="postgresql",
    settings=(
        Setting(
            "batchSize",
            10_000,
            "https://pgboss.io/api/workers",
            "jobs of one fetch and one handler call; tried twice each: 3000, 10000",
        ),
        Setting("burstWhenBatchFull", True, "https://pgboss.io/api/workers", "fetch again without a pause"),
        Setting("pollingIntervalSeconds", 0.5, "https://pgboss.io/api/workers", "the least it allows"),
        Setting(
            "localConcurrency",
            2,
            "https://pgboss.io/api/workers",
            "fetching overlaps with completing; tried: 1, 2, and 3 once",
        ),
        Setting("notify", True, "https://pgboss.io/api/queues", "LISTEN/NOTIFY, for latency"),
        Setting("partition", True, "https://pgboss.io/api/queues", "a table of its own for the queue"),
        Setting("max", 10, "https://pgboss.io/api/constructor", "connections"),
        Setting("bulk_batch", 10_000, "https://pgboss.io/api/jobs", "jobs of one insert"),
    ),
    jobs=400_000,
    singles=2_000,
    durability="committed; one handler call for a whole batch",
    history="kept",
    unfinished="select count(*) from pgboss.job where name = 'default' and state < 'completed'",
)

PEERS: tuple[Peer, ...] = (
    _HOLDFAST,
    _PGQUEUER,
    _PROCRASTINATE,
    _CHANCY,
    _AWA,
    _SAQ,
    _DBOS,
    _GRAPHILE_WORKER,
    _PG_BOSS,
)
