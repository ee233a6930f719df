-- The engine as a worker calls it: settle the last batch and claim the next in one call and one commit. The turn after the
-- last claims nothing, so that nothing stays held.
\set turn :turn + 1
\set room case when :turn > :turns then 0 when :turn > :warm_up then :batch else 1 end
\set settling :claimed
select
  count(*) filter (where kind is null) as claimed,
  count(*) filter (where kind = 'refused') as refused,
  coalesce(array_agg('j' || number) filter (where kind is null), '{}') as ids,
  coalesce(array_agg(lease_id) filter (where kind is null), '{}') as leases
from holdfast.settle_and_claim(
  :ids::text[], array_fill('complete'::text, array[:settling::integer]), :leases::text[],
  'bench', array['bench'], :room::integer, 60, p_brief => true) \gset
\if :refused <> 0
insert into holdfast_bench.mismatches (contender, claimed, settled)
values ('one_call', :settling::bigint, :settling::bigint - :refused::bigint);
\endif
