-- The bare queue: claim a batch, settle it. Two commits.
\set turn :turn + 1
\set room case when :turn > :warm_up then :batch else 1 end
select count(*) as claimed, coalesce(array_agg(id), '{}') as ids
from holdfast_bench.claim('bench', 'bench', :room::integer, 60) \gset
select holdfast_bench.settle(:ids::bigint[]) as settled \gset
\if :settled <> :claimed
insert into holdfast_bench.mismatches (contender, claimed, settled) values ('bare', :claimed::bigint, :settled::bigint);
\endif
