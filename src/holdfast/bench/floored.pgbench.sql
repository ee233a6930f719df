-- As one_call, on the queue that workers serve, and each claim begins its search where the last one began.
\set turn :turn + 1
\set room case when :turn > :turns then 0 else :batch end
\set settling :claimed
select
  count(*) filter (where kind is null) as claimed,
  count(*) filter (where kind = 'refused') as refused,
  coalesce(array_agg('j' || number) filter (where kind is null), '{}') as ids,
  coalesce(array_agg(lease_id) filter (where kind is null), '{}') as leases,
  coalesce(min(available_at) filter (where kind is null), '-infinity') as floor
from holdfast.settle_and_claim(
  :ids::text[], array_fill('complete'::text, array[:settling::integer]), :leases::text[],
  'bench', array['default'], :room::integer, 60, p_floor_at => :floor::timestamptz, p_brief => true) \gset
\if :refused <> 0
insert into holdfast_bench.mismatches (contender, claimed, settled)
values ('floored', :settling::bigint, :settling::bigint - :refused::bigint);
\endif
