-- Every routine and view of the schema with its signature. `create or replace` works if the new signature is the old one
-- or adds to its end: a default, or a column of a view. This view lives only as long as the installing transaction needs it.

create view _objects as
select
  'pg_proc'::regclass as catalog,
  routine.oid,
  kind.word as kind,
  routine.oid::regprocedure::text as identity,
  format('%s %s(%s)', kind.word, routine.proname, pg_get_function_identity_arguments(routine.oid))
    || coalesce(' returns ' || pg_get_function_result(routine.oid), '')
    || repeat(', default', routine.pronargdefaults) as signature
from pg_proc routine
cross join lateral (select case routine.prokind when 'p' then 'procedure' else 'function' end as word) as kind
where routine.pronamespace = current_schema()::regnamespace
  and routine.prokind in ('f', 'p')
union all
select
  'pg_class'::regclass,
  relation.oid,
  'view',
  relation.oid::regclass::text,
  format('view %s: ', relation.relname) || (
    select string_agg(attribute.attname || ' ' || format_type(attribute.atttypid, attribute.atttypmod), ', '
                      order by attribute.attnum)
    from pg_attribute attribute
    where attribute.attrelid = relation.oid and attribute.attnum > 0 and not attribute.attisdropped
  )
from pg_class relation
where relation.relnamespace = current_schema()::regnamespace
  and relation.relkind = 'v'
  and relation.relname <> '_objects';
