-- A claim of the engine by itself, with everything a worker reads.
select * from holdfast.claim_jobs('bench', array['bench'], 1, 60);
