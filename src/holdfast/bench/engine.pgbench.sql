-- The engine by two calls: claim a batch, settle it under its leases. Two commits.
\set turn :turn + 1
\set room case when :turn > :warm_up then :batch else 1 end
select
  count(*) as claimed, coalesce(array_agg(job_id), '{}') as ids, coalesce(array_agg(lease_id), '{}') as leases
from holdfast.claim_jobs('bench', array['bench'], :room::integer, 60) \gset
select count(*) filter (where ok) as settled
from holdfast.settle_jobs(:ids::text[], array_fill('complete'::text, array[:claimed::integer]), :leases::text[]) \gset
\if :settled <> :claimed
insert into holdfast_bench.mismatches (contender, claimed, settled) values ('engine', :claimed::bigint, :settled::bigint);
\endif
