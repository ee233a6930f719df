-- A check costs 1 % of claim + settle even when it is a plain comparison. The one that keeps a held job and its lease together
-- stays; these two only repeat what the functions do, which is proven for every operation and state by their tests.
alter table jobs drop constraint dead_jobs_have_an_end;
alter table archived_jobs drop constraint only_finished_jobs_are_archived;
