-- Who may do what. Roles belong to the whole server, so they are made only if missing and if we may; an installation whose
-- owner may not create roles works as it is for its owner, and a later `holdfast migrate up` grants once they exist.
--   holdfast_producer  puts jobs in line          holdfast_viewer  sees everything, changes nothing
--   holdfast_worker    runs jobs, and submits     holdfast_admin   operates: everything but tables
do $$
declare
  v_role text;
begin
  foreach v_role in array array['holdfast_producer', 'holdfast_worker', 'holdfast_viewer', 'holdfast_admin'] loop
    begin
      if not exists (select from pg_roles where rolname = v_role) then
        execute format('create role %I nologin', v_role);
      end if;
    exception
      when insufficient_privilege or duplicate_object or unique_violation then
        raise notice 'role % was not created: %', v_role, sqlerrm;
    end;
  end loop;
end $$;

create or replace function _grants() returns table (role text, routine text)
language sql immutable set search_path from current
as $$
  select grants.role, routines.routine
  from (values
    ('producer', array['submit_job', 'submit_jobs', 'normalize_wait_for']),
    ('worker', array[
      'submit_job', 'submit_jobs', 'normalize_wait_for', 'get_work', 'claim_jobs', 'next_due', 'settle_jobs',
      'settle_and_claim', 'extend_lease', 'extend_leases', 'reschedule_job', 'complete_job', 'fail_job', 'requeue_job',
      'retry_later', 'release_job', 'stop_job', 'stop_job_with_retry', 'mark_job_unknown_stopped',
      'acknowledge_cancellation', 'lapse_leases', 'report_progress', 'acquire_resources', 'release_resources',
      'resource_capacity', 'is_notify_enabled', 'is_trace_enabled', 'trace_level', 'crash_concern_threshold']),
    ('viewer', array[
      'get_job', 'get_job_stats', 'list_stuck_jobs', 'list_dead_jobs', 'next_due', 'resource_capacity', 'is_notify_enabled',
      'is_trace_enabled', 'trace_level', 'crash_concern_threshold'])
  ) as grants (role, routines)
  cross join unnest(grants.routines) as routines (routine)
$$;

do $$
declare
  v_schema text := current_schema();
  v_routine record;
  v_role text;
begin
  execute format('revoke all on schema %I from public', v_schema);
  execute format('revoke all on all tables in schema %I from public', v_schema);
  execute format('revoke all on all sequences in schema %I from public', v_schema);
  execute format('revoke all on all routines in schema %I from public', v_schema);

  foreach v_role in array array['producer', 'worker', 'viewer', 'admin'] loop
    continue when not exists (select from pg_roles where rolname = 'holdfast_' || v_role);
    execute format('grant usage on schema %I to %I', v_schema, 'holdfast_' || v_role);
    -- So that whoever connects can tell whether this installation fits its release.
    execute format('grant select on migrations, installation to %I', 'holdfast_' || v_role);
    for v_routine in
      select routine.oid::regprocedure as signature, routine.proname
      from pg_proc routine
      where routine.pronamespace = v_schema::regnamespace
    loop
      execute format('revoke all on routine %s from %I', v_routine.signature, 'holdfast_' || v_role);
      if exists (select from _grants() as granted where granted.role = v_role and granted.routine = v_routine.proname)
        or (v_role = 'admin' and v_routine.proname !~ '^_')
        -- Views run the functions they use as their reader.
        or (v_role in ('viewer', 'admin') and v_routine.proname = '_clock')
      then
        execute format('grant execute on routine %s to %I', v_routine.signature, 'holdfast_' || v_role);
      end if;
    end loop;
    if v_role in ('viewer', 'admin') then
      execute format(
        'grant select on jobs_with_status, jobs_friendly_status, jobs_archive, job_details, jobs_trace, queues, resources, holds, settings to %I',
        'holdfast_' || v_role);
    end if;
  end loop;
end $$;
