-- What is installed here. Created once, before the first migration.

create table migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
);

create table installation (
  only_row boolean primary key default true,
  release text not null,
  functions_fingerprint text not null,
  signatures text[] not null,                         -- the functions and views that are ours, so that we drop no others
  changed_at timestamptz not null default clock_timestamp(),

  constraint there_is_one_installation check (only_row)
);
