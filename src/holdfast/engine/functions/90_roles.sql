-- Who may do what. Roles belong to the whole server, so they are made only if missing and if we may. An installation whose
-- owner may not create roles works as it is for its owner; once somebody made them, `select _grant_to_roles()` as the owner,
-- or the next upgrade, gives them their rights.
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
        raise warning 'role % was not created: %', v_role, sqlerrm;
    end;
  end loop;
end $$;

-- Public functions are granted by name; admins may call all of them. Views run the functions they use as their reader, so
-- readers may call the clock.
create or replace function _grants() returns table (role text, routine text)
language sql immutable set search_path from current
as $$
  select grants.role, routines.routine
  from (values
    ('producer', array['submit_job', 'submit_jobs', 'submit_plain_job', 'normalize_wait_for']),
    ('worker', array[
      'submit_job', 'submit_jobs', 'submit_plain_job', 'normalize_wait_for', 'get_work', 'claim_jobs', 'claim_waiting_job', 'next_due',
      'jobs_of_stream', 'settle_jobs', 'settle_and_claim', 'extend_lease', 'extend_leases', 'reschedule_job', 'complete_job',
      'fail_job', 'requeue_job', 'retry_later', 'release_job', 'stop_job', 'stop_job_with_retry',
      'mark_job_unknown_stopped', 'acknowledge_cancellation', 'lapse_leases', 'report_progress', 'acquire_resources', 'release_resources',
      'resource_capacity', 'is_notify_enabled', 'is_trace_enabled', 'trace_level', 'crash_concern_threshold', 'archive_retention',
      'report_worker', 'upkeep']),
    ('viewer', array[
      'get_job', 'get_job_stats', 'get_queue_stats', 'held_jobs', 'count_ended_jobs', 'tagged_jobs', 'list_waiting_jobs', 'list_stuck_jobs',
      'list_dead_jobs', 'next_due', 'resource_capacity', 'is_notify_enabled', 'is_trace_enabled', 'trace_level',
      'crash_concern_threshold', 'archive_retention', 'get_history', '_clock']),
    ('admin', array['_clock'])
  ) as grants (role, routines)
  cross join unnest(grants.routines) as routines (routine)
$$;

-- Give the roles that exist exactly their rights in this schema, and everybody else (public) none. Answers those roles.
-- What is as it should be is not touched, so it may be called at any time. Only for the owner.
create or replace function _grant_to_roles() returns setof text
language plpgsql set search_path from current
as $$
declare
  v_change text;
begin
  for v_change in
    with objects (kind, name, title, oid, acl) as (
      select 'schema', quote_ident(space.nspname), space.nspname::text, space.oid, space.nspacl
      from pg_namespace space
      where space.nspname = current_schema()
      union all
      select 'routine', routine.oid::regprocedure::text, routine.proname, routine.oid,
        coalesce(routine.proacl, acldefault('f', routine.proowner))
      from pg_proc routine
      where routine.pronamespace = current_schema()::regnamespace
      union all
      select case relation.relkind when 'S' then 'sequence' else 'table' end, relation.oid::regclass::text,
        relation.relname, relation.oid, relation.relacl
      from pg_class relation
      where relation.relnamespace = current_schema()::regnamespace
        and relation.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    ), given as (
      select coalesce(role.rolname, 'public') as role, objects.kind, objects.name, lower(acl.privilege_type) as privilege
      from objects
      cross join lateral aclexplode(objects.acl) as acl
      left join pg_roles role on role.oid = acl.grantee
      where acl.grantee = 0
        or role.rolname in ('holdfast_producer', 'holdfast_worker', 'holdfast_viewer', 'holdfast_admin')
    ), wanted as (
      select role.rolname as role, objects.kind, objects.name, rights.privilege
      from objects
      join (values ('schema', 'usage'), ('routine', 'execute'), ('table', 'select')) as rights (kind, privilege)
        on rights.kind = objects.kind
      join pg_roles role on role.rolname in ('holdfast_producer', 'holdfast_worker', 'holdfast_viewer', 'holdfast_admin')
      where objects.kind = 'schema'
        or (objects.kind = 'routine' and (
          ('holdfast_admin', false) = (role.rolname, starts_with(objects.title, '_'))
          or (substr(role.rolname, 10), objects.title) in (select granted.role, granted.routine from _grants() as granted)
        ))
        or (objects.kind = 'table' and (
          -- So that whoever connects can tell whether this installation fits its release.
          objects.title in ('migrations', 'installation')
          or (role.rolname in ('holdfast_viewer', 'holdfast_admin') and objects.title in (
            'jobs_with_status', 'jobs_friendly_status', 'jobs_archive', 'job_details', 'jobs_trace', 'queues', 'resources',
            'holds', 'settings', 'workers', 'history'))
        ))
    )
    select format('revoke %s on %s %s from %s', surplus.privilege, surplus.kind, surplus.name, surplus.role)
    from (select * from given except select * from wanted) as surplus
    union all
    select format('grant %s on %s %s to %s', missing.privilege, missing.kind, missing.name, missing.role)
    from (select * from wanted except select * from given) as missing
  loop
    execute v_change;
  end loop;
  return query
    select ours.role
    from unnest(array['holdfast_producer', 'holdfast_worker', 'holdfast_viewer', 'holdfast_admin'])
      with ordinality as ours (role, place)
    where exists (select from pg_roles where pg_roles.rolname = ours.role)
    order by ours.place;
end $$;

do $$ begin perform _grant_to_roles(); end $$;
