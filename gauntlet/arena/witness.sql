-- A witness in the database: whatever happens to a job or a key is written down in the same transaction, while its row is
-- locked, so that per job (and per key) the numbers are in the order of what happened. Only in databases of the gauntlet.
create sequence public.witness_seq cache 1;

create table public.witness (
  seq bigint not null default nextval('public.witness_seq'),
  at timestamptz not null default clock_timestamp(),
  began timestamptz not null default transaction_timestamp(),
  kind text not null,
  id bigint, job text, state text, lease text, stream bigint, assignee text, attempts integer, lapses integer,
  waiting_on integer, due timestamptz, lease_ends timestamptz, key text, max_attempts integer, queue text
);
create index witness_by_job on public.witness (id, seq);
create index witness_by_seq on public.witness (seq);

create table public.witness_holds (
  seq bigint not null default nextval('public.witness_seq'),
  at timestamptz not null default clock_timestamp(),
  kind text, key text, job_id bigint, lease text, taken boolean
);

-- What handlers and callers do beside their jobs.
create table public.ledger (job text not null, lease text not null);
create table public.orders (job text not null);

create function public.witness_live() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into witness (
    kind, id, job, state, lease, stream, assignee, attempts, lapses, waiting_on, due, lease_ends, key, max_attempts, queue)
  values (
    case
      when tg_op = 'INSERT' then 'new'
      when old.state = new.state and old.lease_id is not distinct from new.lease_id and old.attempts = new.attempts
        and old.waiting_on = new.waiting_on then 'extend'
      else 'change'
    end,
    new.id, coalesce(new.name, 'j' || new.id), new.state, new.lease_id, new.stream_id, new.assignee_id, new.attempts,
    new.lease_expiration_count, new.waiting_on, new.available_at, new.lease_expires_at, new.singleton_key,
    new.max_attempts, new.queue);
  return null;
end $$;

create function public.witness_ended() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into witness (
    kind, id, job, state, lease, assignee, attempts, lapses, due, lease_ends, key, max_attempts, queue)
  values (
    'end', new.id, coalesce(new.name, 'j' || new.id), new.state, new.lease_id, new.assignee_id, new.attempts,
    new.lease_expiration_count, new.available_at, new.lease_expires_at, new.singleton_key, new.max_attempts, new.queue);
  return null;
end $$;

-- A name is given back only when its job is deleted for good.
create function public.witness_forgotten() returns trigger language plpgsql security definer set search_path = public as $$
begin
  insert into witness (kind, id, job, state) values ('gone', old.id, old.name, 'GONE');
  return null;
end $$;

create function public.witness_hold() returns trigger language plpgsql security definer set search_path = public as $$
begin
  if tg_op = 'INSERT' then
    insert into witness_holds (kind, key, job_id, lease, taken) values (new.kind, new.key, new.job_id, new.lease_id, true);
  else
    insert into witness_holds (kind, key, job_id, lease, taken) values (old.kind, old.key, old.job_id, old.lease_id, false);
  end if;
  return null;
end $$;

create trigger witness_new after insert on holdfast.jobs for each row execute function public.witness_live();
create trigger witness_change after update on holdfast.jobs for each row
  when (
    old.state <> new.state or old.lease_id is distinct from new.lease_id or old.attempts <> new.attempts
    or old.waiting_on <> new.waiting_on or old.lease_expires_at is distinct from new.lease_expires_at)
  execute function public.witness_live();
create trigger witness_end after insert on holdfast.archived_jobs for each row execute function public.witness_ended();
create trigger witness_other_end after update on holdfast.archived_jobs for each row
  when (old.state <> new.state) execute function public.witness_ended();
create trigger witness_gone after delete on holdfast.job_names for each row execute function public.witness_forgotten();
create trigger witness_hold after insert or delete on holdfast.holds for each row execute function public.witness_hold();
