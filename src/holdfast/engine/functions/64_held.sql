-- What is held, and how it is found.
--
-- A job that is claimed with many others stays in line: no column of an index changes, so the claim needs no entry in any of them.
-- Whoever goes through the line steps over it. That it is held in line is written down once for the whole claim, in claims.
-- A job that is claimed with few others leaves the line at once, and one that is held for longer than a few seconds leaves it then:
-- lapses_at is the end of its lease, and jobs_held has it.

-- The numbers of all jobs that are held, and their queues: those that left the line, and those that are held in it, which only
-- their claims name. A claim may name jobs that have ended since, or were handed back, and two may name the same.
-- p_queues: of these only. Index: jobs_held, all of it; the primary key, for what was claimed in the last seconds.
create or replace function _held_jobs(p_queues text[] default null) returns table (number bigint, queue text)
language plpgsql stable
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    select job.id, job.queue
    from jobs job
    where job.lapses_at is not null and (p_queues is null or job.queue = any (p_queues))
    union
    select job.id, claims.queue
    from claims
    cross join lateral unnest(claims.numbers) as named (number)
    cross join lateral (
      select line.id
      from jobs line
      where line.id = named.number and (line.state in ('RUNNING', 'CANCELLING') and line.lapses_at is null) is true
      offset 0
    ) as job
    where p_queues is null or claims.queue = any (p_queues);
end $$;

-- The numbers of the jobs that are held, of one queue or of all, in no order and at most so many.
create or replace function held_jobs(p_queue text default null, p_limit integer default 100000) returns setof bigint
language plpgsql stable security definer set search_path from current
as $$
begin
  perform _require_limit(p_limit);
  return query
    select held.number from _held_jobs(case when p_queue is not null then array[p_queue] end) as held limit p_limit;
end $$;

-- See what became of the claims that are to be looked at now. Of their jobs most have ended; those that are still held leave the line,
-- so that nobody steps over them for long, and a claim that has nothing left in line is forgotten. Answers the jobs in line whose
-- leases have ended, and their claims, which are kept until that is dealt with.
-- Any number may do it at once, and nobody waits for another: what is locked is skipped, and looked at again. What was found once
-- to be no longer held in line under a claim never is again.
create or replace function _review_claims(p_now timestamptz, out o_overdue bigint[], out o_claims bigint[])
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_claim record;
  v_held bigint[];
  v_late bigint[];
  v_left integer;
begin
  for v_claim in
    select claims.id, claims.numbers from claims where claims.look_at <= p_now order by claims.look_at limit 200
  loop
    select
      array_agg(job.id) filter (where job.lease_expires_at > p_now),
      array_agg(job.id) filter (where job.lease_expires_at <= p_now)
    into v_held, v_late
    from jobs job
    where job.id = any (v_claim.numbers)
      and (job.state in ('RUNNING', 'CANCELLING') and job.lapses_at is null) is true;
    v_left := 0;
    if v_held is not null then
      update jobs job
      set lapses_at = job.lease_expires_at
      where job.id = any (array(
        select line.id
        from jobs line
        where line.id = any (v_held)
          and (line.state in ('RUNNING', 'CANCELLING') and line.lapses_at is null) is true
        order by line.id
        for update skip locked));
      get diagnostics v_left = row_count;
    end if;
    o_overdue := o_overdue || v_late;
    if v_left < cardinality(v_held) then
      continue;                                       -- some are locked, and still in line
    elsif v_late is not null then
      o_claims := o_claims || v_claim.id;
    else
      perform _forget_claims(array[v_claim.id]);
    end if;
  end loop;
end $$;

-- Nothing of these claims is held in line any more. One that somebody else is just forgetting is left to him.
create or replace function _forget_claims(p_ids bigint[]) returns void
language plpgsql set search_path from current
as $$
begin
  delete from claims
  where claims.id = any (array(select claim.id from claims claim where claim.id = any (p_ids) for update skip locked));
end $$;

-- Somebody moved the ends of leases by hand: lapses_at follows. The engine's own statements move both at once, and say so
-- (holdfast.moves_leases), because to look at each row of a claim once more took a twentieth of the server's time for a job.
-- Index: jobs_held, all of it.
create or replace function _follow_lease() returns trigger
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  update jobs job
  set lapses_at = job.lease_expires_at
  where job.lapses_at is not null and job.lapses_at <> job.lease_expires_at;
  return null;
end $$;

do $$
begin
  if not exists (select from pg_trigger where tgrelid = 'jobs'::regclass and tgname = 'leases_followed') then
    create trigger leases_followed after update of lease_expires_at on jobs for each statement
      when (current_setting('holdfast.moves_leases', true) is distinct from 'on') execute function _follow_lease();
  end if;
end $$;
