-- A claim of the bare queue by itself.
select * from holdfast_bench.claim('bench', 'bench', 1, 60);
