-- Signals are hints: at most one per statement and queue, never data, never needed.

create or replace function _notify_need(p_next_need text, p_job_id text) returns void
language plpgsql set search_path from current
as $$
begin
  if is_notify_enabled() then
    perform pg_notify(current_schema() || '.need.' || p_next_need, coalesce(p_job_id, ''));
  end if;
end $$;

-- Wake who waits for these jobs. One job of a queue: its id is the payload; several: none.
create or replace function _notify_needs(p_ids bigint[]) returns void
language plpgsql set search_path from current
as $$
begin
  if cardinality(p_ids) > 0 and is_notify_enabled() then
    perform pg_notify(
      current_schema() || '.need.' || job.queue,
      case when count(*) = 1 then min(_public_id(job.name, job.id)) else '' end)
    from jobs job
    where job.id = any (p_ids)
    group by job.queue;
  end if;
end $$;

-- Tell stream owners that somebody else ended a job of theirs.
create or replace function _notify_freed() returns void
language plpgsql set search_path from current
as $$
begin
  if is_notify_enabled() then
    perform pg_notify(current_schema() || '.freed', '');
  end if;
end $$;
