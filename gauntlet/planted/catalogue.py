"""The mistakes, each of a kind that has been made somewhere."""

from __future__ import annotations

from typing import Final

from gauntlet.planted.plant import Edit, Plant

KILLS = ("worker killed", "worker killed", "stream reader killed")
FENCE = "nothing is taken from a former holder"
LEASES = "never two live leases"
KEYS = "no key is held twice, nor by a job that is not running"
ENDS = "every job ends in exactly one finished state"
STEPS = "every step is one the model allows"
ATTEMPTS = "attempts and errors equal the failures"
LOST = "no acknowledged job is lost"
PHANTOM = "no job that nobody asked for, and none twice"
STRANDED = "no child is stranded"

PLANTED: Final[dict[str, Plant]] = {
    "unfenced_settle": Plant(
        "a settle is taken under any lease",
        (
            Edit("_settle", "coalesce(job.lease_id::text = wish.lease_id, false)", "true"),
            Edit("_complete_plain_jobs", "job.lease_id::text = finish.lease_id", "true"),
        ),
        caught_by=(FENCE,),
    ),
    "unfenced_extend": Plant(
        "a lease is extended by whoever knows the job",
        (
            Edit("extend_leases", "where job.lease_id::text = asked.lease_id", "where true"),
            Edit(
                "extend_leases", "(job.lease_id::text = asked.lease_id) is not true", "job.lease_id is null"
            ),
        ),
        caught_by=(FENCE,),
    ),
    "unfenced_progress": Plant(
        "progress is written under any lease",
        (Edit("report_progress", "v_job.lease_id::text is distinct from p_lease_id", "false"),),
        caught_by=(FENCE,),
    ),
    "double_claim": Plant(
        "a claim does not lock what it takes",
        (Edit("_lock_next_jobs", "for update skip locked", ""),),
        sql="""
            create function public.dawdle() returns trigger language plpgsql as $$ begin
              perform pg_sleep(0.002); return new; end $$;
            create trigger dawdle before update on holdfast.jobs for each row
              when (new.state = 'RUNNING' and old.state <> 'RUNNING') execute function public.dawdle();
        """,
        caught_by=(LEASES,),
    ),
    "lost_waiter": Plant(
        "the quick way to complete forgets those who wait",
        (Edit("_complete_plain_jobs", "and job.waiters = 0", ""),),
        caught_by=(STRANDED,),
    ),
    "key_leaked_on_lapse": Plant(
        "a lapse leaves the key with the lost job",
        (
            Edit(
                "_hand_back_locked_jobs",
                "filter (where back.had_holds)",
                "filter (where back.had_holds and back.operation <> 'lapse')",
            ),
        ),
        faults=KILLS,
        caught_by=(KEYS,),
    ),
    "attempt_at_claim": Plant(
        "an attempt is counted when a job is claimed",
        (
            Edit(
                "claim_jobs", "set state = 'RUNNING',", "set state = 'RUNNING', attempts = job.attempts + 1,"
            ),
            Edit(
                "settle_and_claim",
                "set state = 'RUNNING',",
                "set state = 'RUNNING', attempts = job.attempts + 1,",
            ),
        ),
        caught_by=(ATTEMPTS,),
    ),
    "capacity_off_by_one": Plant(
        "a resource has room for one more than it may",
        (
            Edit("acquire_resources", "resource.capacity <= (select", "resource.capacity < (select"),
            Edit("acquire_resources", "resource_capacity(wanted.key)", "resource_capacity(wanted.key) + 1"),
        ),
        caught_by=(KEYS,),
    ),
    "singleton_forgotten": Plant(
        "a claim does not look who holds a singleton key, and takes none",
        (
            Edit("_with_free_keys", "where job.singleton_key is null", "where true"),
            Edit(
                "_with_free_keys",
                "coalesce(job.singleton_key, job.id::text), job.singleton_key is null",
                "job.id::text, job.id is null",
            ),
            Edit(
                "_lock_next_jobs",
                "not exists (select from holds where holds.kind = 'singleton' "
                "and holds.key = job.singleton_key)",
                "true",
            ),
            Edit(
                "_complete_claim",
                "where job.id = any (p_ids) and job.singleton_key is not null;",
                "where false;",
            ),
        ),
        caught_by=(KEYS,),
    ),
    "lapse_too_early": Plant(
        "leases are swept before they are over",
        (
            Edit(
                "_sweep",
                "job.lapses_at <= v_now",
                "job.lapses_at <= v_now + interval '1.9 seconds'",
            ),
            Edit("_lock_next_jobs", "job.lapses_at <= o_now)", "true)"),
        ),
        caught_by=(LEASES,),
    ),
    "claim_not_written_down": Plant(
        "a claim of many stays in line, and nobody knows when its leases end",
        (Edit("_lock_next_jobs", "if o_in_line then", "if false then"),),
        faults=KILLS,
        caught_by=("everything ends",),
    ),
    "cancelled_and_retried": Plant(
        "a job that gave way to a cancellation is tried again",
        (
            Edit(
                "_target",
                "case when p_state in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY') then 'STOPPED'::job_state",
                "case when p_state = 'CANCELLING' then 'FAILED_RETRY'::job_state when p_state = 'RUNNING' "
                "then 'STOPPED'::job_state",
            ),
        ),
        caught_by=("what is cancelled is not tried again", STEPS),
    ),
    "cancel_ignored": Plant(
        "a cancellation of a job that waits is answered, and nothing happens",
        (Edit("_target", "then 'UNSCHEDULED'::job_state", "then 'INITIAL_PENDING'::job_state"),),
        caught_by=("what is cancelled is not tried again", STEPS),
    ),
    "resurrection": Plant(
        "now and then a job that has ended is in line again",
        sql="""
            create function public.resurrect() returns trigger language plpgsql as $$ begin
              if new.id % 40 = 0 then
                insert into holdfast.jobs (id, name, queue, task, payload, available_at, created_at, state)
                values (new.id, new.name, new.queue, new.task, new.payload, new.available_at, new.created_at,
                  'UNKNOWN_RETRY');
              end if;
              return null; end $$;
            create trigger resurrect after insert on holdfast.archived_jobs for each row
              when (new.state = 'COMPLETED' and new.attempts = 0) execute function public.resurrect();
        """,
        caught_by=(ENDS, PHANTOM),
    ),
    "swallowed_enqueue": Plant(
        "now and then an enqueue is acknowledged and not stored",
        sql="""
            create function public.swallow() returns trigger language plpgsql as $$ begin
              return case when new.id % 50 = 0 then null else new end; end $$;
            create trigger swallow before insert on holdfast.jobs for each row
              execute function public.swallow();
        """,
        caught_by=(LOST,),
    ),
    "enqueued_twice": Plant(
        "an id that is taken is no obstacle",
        (
            Edit("_submit_plain_job", "perform _refuse_taken_names(array[p_job_id], array[v_id]);", "null;"),
            Edit("_take_names", "perform _refuse_taken_names(p_names, p_ids);", "null;"),
        ),
        faults=(
            "enqueue not answered",
            "enqueue not answered",
            "enqueue not answered",
            "anything not answered",
        ),
        caught_by=(PHANTOM, STEPS),
    ),
    "child_too_early": Plant(
        "a child counts one parent less than it has",
        (Edit("_attach_children", "set waiting_on = given.parents", "set waiting_on = given.parents - 1"),),
        caught_by=("no child before its parents",),
    ),
    "dead_parent_releases": Plant(
        "a dead parent lets its children run",
        (
            Edit(
                "_effect_on_child",
                "when p_if_parent_fails = 'wait' then null",
                "when p_if_parent_fails = 'wait' then 'release'",
            ),
        ),
        caught_by=("no child before its parents",),
    ),
    "endless_retries": Plant(
        "the largest number of attempts is not heeded",
        (Edit("_settle", "coalesce(job.attempts + 1 >= job.max_attempts, false)", "false"),),
        caught_by=(ATTEMPTS,),
    ),
    "lapse_costs_an_attempt": Plant(
        "a worker that dies costs its jobs an attempt",
        (
            Edit(
                "_hand_back_locked_jobs",
                "wish.operation in ('fail', 'requeue') as counted",
                "wish.operation in ('fail', 'requeue', 'lapse') as counted",
            ),
        ),
        faults=KILLS,
        caught_by=(ATTEMPTS,),
    ),
    "snooze_costs_an_attempt": Plant(
        "whoever hands a job back pays for it",
        (
            Edit(
                "_hand_back_locked_jobs",
                "wish.operation in ('fail', 'requeue') as counted",
                "wish.operation in ('fail', 'requeue', 'reschedule') as counted",
            ),
        ),
        caught_by=(ATTEMPTS,),
    ),
    "error_forgotten": Plant(
        "a failure is counted, and its error is not kept",
        (Edit("_hand_back_locked_jobs", "where back.counted\n", "where back.counted and back.id % 3 > 0\n"),),
        caught_by=(ATTEMPTS,),
    ),
    "before_its_time": Plant(
        "a claim takes jobs that are due in a second",
        (
            Edit(
                "_lock_next_jobs",
                "job.available_at <= o_now",
                "job.available_at <= o_now + interval '1 second'",
            ),
        ),
        caught_by=("no job before its time",),
    ),
    "pause_forgotten": Plant(
        "a paused queue goes on",
        (Edit("_lock_next_jobs", "where queues.paused_at is null;", "where true;"),),
        caught_by=("no job of a paused queue is claimed",),
    ),
    "limit_forgotten": Plant(
        "a queue with a limit has room for two more",
        (Edit("_rooms", "queues.max_running - ", "2 + queues.max_running - "),),
        caught_by=("no queue has more jobs held than its limit",),
    ),
    "commit_not_durable": Plant(
        "a commit is acknowledged before it is on the disk",
        sql='alter database "DATABASE" set synchronous_commit = off',
        faults=("server killed", "server stopped at once", "server killed"),
        caught_by=(LOST, "transactions are all or nothing", FENCE, ATTEMPTS),
    ),
    "effect_without_end": Plant(
        "a completion in a caller's transaction answers true even when the lease is lost",
        (
            Edit(
                "complete_job",
                "return _complete_locked_job(",
                "if random() < 0.3 then return true; end if; return _complete_locked_job(",
            ),
        ),
        caught_by=("transactions are all or nothing",),
    ),
}
