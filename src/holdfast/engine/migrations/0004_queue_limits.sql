-- A queue may have a limit: the most of its jobs that may be held at once. A row says what is special about a queue; one that is
-- neither paused nor limited has none.
alter table queues alter column paused_at drop not null;
alter table queues add column max_running integer constraint limits_are_positive check (max_running > 0);
