-- The clock and the switches. Switches are one row, in force for every session once committed.

-- The only clock of the engine. Tests replace this one function; inlined, it costs nothing. Views run it as their reader, in
-- the reader's search_path; hence the qualified name.
create or replace function _clock() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;

-- Whether signals are sent.
create or replace function is_notify_enabled() returns boolean
language sql stable security definer set search_path from current
as $$ select notify from settings where only_row $$;

-- Send signals or not. Polling alone stays correct.
create or replace function set_notify(p_enabled boolean) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  if p_enabled is null then
    raise exception 'set_notify needs true or false, not null' using errcode = '22023';
  end if;
  update settings set notify = p_enabled where only_row;
  return p_enabled;
end $$;

-- What is traced: off, exceptions (everything but the happy path) or all.
create or replace function trace_level() returns text
language sql stable security definer set search_path from current
as $$ select trace_level from settings where only_row $$;

-- Whether anything is traced.
create or replace function is_trace_enabled() returns boolean
language sql stable security definer set search_path from current
as $$ select trace_level <> 'off' from settings where only_row $$;

-- Choose what is traced: off, exceptions or all.
create or replace function set_trace_level(p_level text) returns text
language plpgsql security definer set search_path from current
as $$
begin
  if p_level is null or p_level not in ('off', 'exceptions', 'all') then
    raise exception 'trace level % is not known; use off, exceptions or all', coalesce(quote_literal(p_level), 'null')
      using errcode = '22023';
  end if;
  update settings set trace_level = p_level where only_row;
  return p_level;
end $$;

-- Trace everything (true) or nothing (false).
create or replace function set_trace(p_enabled boolean) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  if p_enabled is null then
    raise exception 'set_trace needs true or false, not null' using errcode = '22023';
  end if;
  perform set_trace_level(case when p_enabled then 'all' else 'off' end);
  return p_enabled;
end $$;

-- How many leases in a row may lapse before a job is set aside.
create or replace function crash_concern_threshold() returns integer
language sql stable security definer set search_path from current
as $$ select crash_concern_threshold from settings where only_row $$;

-- Choose how many leases in a row may lapse before a job is set aside; at least 1.
create or replace function set_crash_concern_threshold(p_threshold integer) returns integer
language plpgsql security definer set search_path from current
as $$
begin
  if p_threshold is null or p_threshold < 1 then
    raise exception 'the crash concern threshold must be at least 1, not %', coalesce(p_threshold::text, 'null')
      using errcode = '22023';
  end if;
  update settings set crash_concern_threshold = p_threshold where only_row;
  return p_threshold;
end $$;

-- How many seconds finished jobs are kept before `upkeep` deletes them; null: for ever.
create or replace function archive_retention() returns double precision
language sql stable security definer set search_path from current
as $$ select archive_retention_s from settings where only_row $$;

-- Choose how many seconds finished jobs are kept, whatever their end, DEAD ones excepted; null, as installed: for ever.
create or replace function set_archive_retention(p_seconds double precision) returns double precision
language plpgsql security definer set search_path from current
as $$
begin
  if p_seconds is not null then
    perform _require_positive(p_seconds, 'p_seconds');
  end if;
  update settings set archive_retention_s = p_seconds where only_row;
  return p_seconds;
end $$;
