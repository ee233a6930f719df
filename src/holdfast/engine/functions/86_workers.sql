-- The beats of workers.

-- A worker says that it is there, about every ten seconds, and once that it has stopped. p_running_seconds: since when it runs.
-- Guard: none; whoever uses the same id is taken for the same worker. Index: the primary key.
create or replace function report_worker(
  p_worker_id text,
  p_queues text[],
  p_capacity integer,
  p_host text default null,
  p_pid integer default null,
  p_version text default null,
  p_running_seconds double precision default 0,
  p_stopped boolean default false
) returns void
language plpgsql security definer set search_path from current
as $$
declare
  v_now timestamptz := _clock();
begin
  perform _require(p_worker_id, 'p_worker_id');
  perform _require_queues(p_queues, 'p_queues');
  if p_capacity is null or p_capacity < 1 then
    raise exception 'p_capacity must be at least 1, not %', coalesce(p_capacity::text, 'null') using errcode = '22023';
  end if;
  perform _require_flag(p_stopped, 'p_stopped');
  if p_running_seconds is null or not p_running_seconds between 0 and 1e9 then
    raise exception 'p_running_seconds must be 0 to a billion, not %', coalesce(p_running_seconds::text, 'null')
      using errcode = '22023';
  end if;
  insert into workers as worker (worker_id, host, pid, version, queues, capacity, started_at, seen_at, stopped_at)
  values (
    p_worker_id, p_host, p_pid, p_version, p_queues, p_capacity, v_now - p_running_seconds * interval '1 second', v_now,
    case when p_stopped then v_now end)
  on conflict (worker_id) do update
  set host = excluded.host,
      pid = excluded.pid,
      version = excluded.version,
      queues = excluded.queues,
      capacity = excluded.capacity,
      -- As it was first said: counted back at each beat it would tremble.
      started_at = case
        when (worker.host, worker.pid) is not distinct from (excluded.host, excluded.pid) and worker.stopped_at is null
          then worker.started_at
        else excluded.started_at
      end,
      seen_at = excluded.seen_at,
      stopped_at = excluded.stopped_at;
end $$;
