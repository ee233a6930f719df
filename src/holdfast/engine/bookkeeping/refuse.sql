-- Stop before anything is changed that this release could not change back. The installer asks the same in Python.

do $$
begin
  if current_setting('server_version_num')::integer < 140000 then
    raise exception 'Holdfast needs PostgreSQL 14 or newer; this server is %', current_setting('server_version');
  end if;
  if (select max(version) from migrations) > current_setting('holdfast.version')::integer or exists (
    select
    from installation
    where functions_fingerprint <> current_setting('holdfast.fingerprint')
      and string_to_array(regexp_replace(release, '(\.0)+$', ''), '.')::integer[]
        > string_to_array(regexp_replace(current_setting('holdfast.release'), '(\.0)+$', ''), '.')::integer[]
  ) then
    raise exception 'schema % was installed by a newer Holdfast than %', current_schema(), current_setting('holdfast.release');
  end if;
  if exists (
    select
    from migrations
    where version || ' ' || checksum not in (select string_to_table(current_setting('holdfast.checksums'), e'\n'))
  ) then
    raise exception 'schema % has a migration whose file was changed since', current_schema();
  end if;
end $$;
