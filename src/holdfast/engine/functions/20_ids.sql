-- Public ids and the errors of the engine. SQLSTATEs of its own, so that every client can tell them apart:
--   22023  a value that cannot be            HF001  no such job         HF002  the id is taken
--   HF003  the job is in another state       HF004  the lease is not the job's (any more)

-- The cast is not decoration: without it the expression is only stable, and the function is not inlined.
create or replace function _public_id(p_name text, p_id bigint) returns text
language sql immutable
as $$ select coalesce(p_name, 'j' || p_id::text) $$;

-- The number of the job that has this public id, live or archived; null if there is none.
create or replace function _job_number(p_job_id text) returns bigint
language sql stable
as $$
  select case
    when p_job_id ~ '^j[1-9][0-9]{0,17}$' then substr(p_job_id, 2)::bigint
    else (select names.id from job_names names where names.name = p_job_id)
  end
$$;

-- The numbers of many generated ids, as workers send them; null if any is not one. The whole list is read at once, ten times
-- as fast as one by one, and without a set clause, so that it is inlined. A name may look like several ids with commas between
-- them: then there are more numbers than ids, for which the caller has to look.
create or replace function _generated_numbers(p_job_ids text[]) returns bigint[]
language sql stable
as $$
  select case
    when array_to_string(p_job_ids, ',', '') ~ '^j[1-9][0-9]{0,17}(,j[1-9][0-9]{0,17})*$' then
      ('{' || replace(array_to_string(p_job_ids, ','), 'j', '') || '}')::bigint[]
  end
$$;

-- The numbers of many public ids, and whether each id is a caller's own. Unknown ids become negative numbers, which no job has.
create or replace function _resolve(p_job_ids text[], out o_ids bigint[], out o_named boolean[])
language plpgsql stable set search_path from current
as $$
begin
  o_ids := _generated_numbers(p_job_ids);
  if cardinality(o_ids) = cardinality(p_job_ids) then
    o_named := array_fill(false, array[cardinality(o_ids)]);
    return;
  end if;
  select
    array_agg(coalesce(_job_number(asked.job_id), -asked.place) order by asked.place),
    array_agg(asked.job_id !~ '^j[0-9]+$' order by asked.place)
  into o_ids, o_named
  from unnest(p_job_ids) with ordinality as asked (job_id, place);
end $$;

create or replace function _require(p_value text, p_parameter text) returns void
language plpgsql immutable set search_path from current
as $$
begin
  if p_value is null or p_value = '' then
    raise exception '% is required and was %', p_parameter, case when p_value is null then 'null' else 'empty' end
      using errcode = '22023';
  end if;
end $$;

create or replace function _require_positive(p_value double precision, p_parameter text) returns void
language plpgsql immutable set search_path from current
as $$
begin
  if p_value is null or not p_value > 0 or p_value > 1e9 then
    raise exception '% must be more than 0 and at most a billion, not %', p_parameter, coalesce(p_value::text, 'null')
      using errcode = '22023';
  end if;
end $$;

create or replace function _require_limit(p_limit integer) returns void
language plpgsql immutable set search_path from current
as $$
begin
  if p_limit is null or p_limit < 1 then
    raise exception 'the limit must be at least 1, not %', coalesce(p_limit::text, 'null') using errcode = '22023';
  end if;
end $$;

create or replace function _require_flag(p_value boolean, p_parameter text) returns void
language plpgsql immutable set search_path from current
as $$
begin
  if p_value is null then
    raise exception '% needs true or false, not null', p_parameter using errcode = '22023';
  end if;
end $$;

-- A null among tags would match no job at all.
create or replace function _require_tags(p_tags text[]) returns void
language plpgsql immutable set search_path from current
as $$
begin
  if array_position(p_tags, null) is not null then
    raise exception 'p_tags: a tag is null' using errcode = '22023';
  end if;
end $$;

-- Queues name a NOTIFY channel <schema>.need.<queue>; a channel has at most 63 bytes.
create or replace function _require_queue(p_queue text, p_parameter text) returns void
language plpgsql immutable set search_path from current
as $$
begin
  perform _require(p_queue, p_parameter);
  if octet_length(p_queue) > 40 then
    raise exception '%: queue name "%" has % bytes; at most 40 fit', p_parameter, p_queue, octet_length(p_queue)
      using errcode = '22023';
  end if;
end $$;

create or replace function _require_queues(p_queues text[], p_parameter text) returns void
language plpgsql immutable set search_path from current
as $$
declare
  v_queue text;
begin
  if p_queues is null or cardinality(p_queues) = 0 then
    raise exception '% must name at least one queue and was %', p_parameter,
      case when p_queues is null then 'null' else 'empty' end using errcode = '22023';
  end if;
  foreach v_queue in array p_queues loop
    perform _require_queue(v_queue, p_parameter);
  end loop;
end $$;

-- Raise what stands in the way of an operation, in words that name the job and what was found.
create or replace function _refuse(p_job_id text, p_operation text, p_reason text, p_state job_state) returns void
language plpgsql stable set search_path from current
as $$
begin
  case p_reason
    when 'not_found' then
      raise exception 'job "%" does not exist, so it cannot be changed by %', p_job_id, p_operation
        using errcode = 'HF001';
    when 'lease_lost' then
      raise exception '%: the caller does not hold job "%" (any more); it is % and was claimed, handed back or ended since',
        p_operation, p_job_id, p_state using errcode = 'HF004';
    else
      raise exception '%: job "%" is %, which this operation does not start from', p_operation, p_job_id, p_state
        using errcode = 'HF003';
  end case;
end $$;

-- How a job that is not live (any more) ended; null if there never was one.
create or replace function _end_of(p_job_id text) returns job_state
language sql stable
as $$
  select job.state
  from archived_jobs job
  where job.id = _job_number(p_job_id) and _public_id(job.name, job.id) = p_job_id
$$;

-- Lock a live job by its public id, waiting for whoever changes it now. Null row: it is not live.
create or replace function _lock_job(p_job_id text) returns jobs
language plpgsql set search_path from current
as $$
declare
  v_job jobs;
begin
  perform _require(p_job_id, 'p_job_id');
  select job.* into v_job
  from jobs job
  where job.id = _job_number(p_job_id) and _public_id(job.name, job.id) = p_job_id
  for update;
  return v_job;
end $$;

-- The same, and an error that says what became of it when it is not live.
create or replace function _lock_live_job(p_job_id text, p_operation text) returns jobs
language plpgsql set search_path from current
as $$
declare
  v_job jobs := _lock_job(p_job_id);
  v_end job_state;
begin
  if v_job.id is null then
    v_end := _end_of(p_job_id);
    perform _refuse(p_job_id, p_operation, case when v_end is null then 'not_found' else 'wrong_state' end, v_end);
  end if;
  return v_job;
end $$;

-- Seed 003: lock a job that has the given status now, and return it as the view shows it.
create or replace function _lock_job_for_status(
  p_job_id text,
  p_status text,
  p_expected_lease_id text default null,
  p_missing_message text default null
) returns jobs_with_status
language plpgsql set search_path from current
as $$
declare
  v_job jobs := _lock_job(p_job_id);
  v_row jobs_with_status;
  v_end job_state;
  v_message text;
begin
  -- A statement of its own after the lock: it sees the row and the clock as they are now.
  select job.* into v_row from jobs_with_status job where job.number = v_job.id;
  if v_row.number is null then
    v_end := _end_of(p_job_id);
    if v_end is null then
      raise exception '%', coalesce(p_missing_message, format('job "%s" does not exist', p_job_id)) using errcode = 'HF001';
    end if;
    raise exception '%; it is %', coalesce(p_missing_message, format('job "%s" is not %s', p_job_id, p_status)), v_end
      using errcode = 'HF003';
  end if;
  if p_expected_lease_id is not null and v_row.lease_id is distinct from p_expected_lease_id then
    raise exception '% is % and the lease is not the caller''s (any more)',
      coalesce(p_missing_message || '; it', format('lease "%s" is lost; job "%s"', p_expected_lease_id, p_job_id)),
      v_row.state using errcode = 'HF004';
  end if;
  if v_row.status is distinct from p_status then
    v_message := coalesce(p_missing_message, format('job "%s" is not %s', p_job_id, p_status));
    if p_status = 'ACTIVE' and v_row.lease_id = p_expected_lease_id then
      -- The status says what it is without the lease: READY, of a job that is RUNNING, would tell the caller nothing.
      raise exception '%; it is % and its lease has %', v_message, v_row.state,
        case when v_row.state in ('RUNNING', 'CANCELLING') then 'lapsed' else 'ended' end using errcode = 'HF004';
    end if;
    raise exception '%; it is % (%)', v_message, v_row.state, v_row.status using errcode = 'HF003';
  end if;
  return v_row;
end $$;
