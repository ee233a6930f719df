-- Who takes jobs of which queue, and until when it waits for a signal: while somebody is there and nobody waits, none is sent.
-- Hints about hints: unlogged, and empty after a crash, which means that signals are sent. Rows change in place.
create unlogged table listeners (
  queue text not null,
  listener bigint not null,
  waits_until timestamptz not null,
  present_until timestamptz not null,
  primary key (queue, listener)
) with (fillfactor = 50);
