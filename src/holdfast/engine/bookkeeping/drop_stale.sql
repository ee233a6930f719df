-- Drop those of our functions and views that this release no longer has, or has with a signature that `create or replace`
-- refuses, and whatever else of ours uses them: all of it is created next. What this release has is in the setting
-- holdfast.signatures, one a line. Nothing is dropped by cascade: what a user built upon them stops us, with its name.

do $$
declare
  v_drop text;
begin
  for v_drop in
    with recursive
    ours as (
      select object.*
      from _objects object
      where object.signature in (select unnest(signatures) from installation)
    ),
    -- A view depends through its rule; a function may depend on a view through the view's row type or an array of it.
    uses as (
      select dependent.catalog, dependent.oid, used.catalog as used_catalog, used.oid as used_oid
      from pg_depend depend
      left join pg_rewrite rule on depend.classid = 'pg_rewrite'::regclass and rule.oid = depend.objid
      left join pg_type type on depend.refclassid = 'pg_type'::regclass and type.oid = depend.refobjid
      left join pg_type row_type on row_type.oid = coalesce(nullif(type.typelem, 0), type.oid) and row_type.typrelid <> 0
      join ours dependent
        on (dependent.catalog, dependent.oid) = (
          case when rule.oid is null then depend.classid else 'pg_class'::regclass end, coalesce(rule.ev_class, depend.objid))
      join ours used
        on (used.catalog, used.oid) = (
          case when row_type.oid is null then depend.refclassid else 'pg_class'::regclass end,
          coalesce(row_type.typrelid, depend.refobjid))
      where (dependent.catalog, dependent.oid) <> (used.catalog, used.oid)
    ),
    stale as (
      select ours.catalog, ours.oid, 0 as depth
      from ours
      where not exists (
        select
        from string_to_table(current_setting('holdfast.signatures'), e'\n') as offered (signature)
        where starts_with(offered.signature || ',', ours.signature || ',')
      )
      union
      select uses.catalog, uses.oid, stale.depth + 1
      from stale
      join uses on (uses.used_catalog, uses.used_oid) = (stale.catalog, stale.oid)
      where stale.depth < 100
    )
    select format('drop %s %s', ours.kind, ours.identity)
    from stale
    join ours using (catalog, oid)
    group by ours.kind, ours.identity
    order by max(stale.depth) desc, ours.kind, ours.identity
  loop
    execute v_drop;
  end loop;
end $$;

drop view _objects;
