insert into installation (release, functions_fingerprint, signatures)
values (
  current_setting('holdfast.release'),
  current_setting('holdfast.fingerprint'),
  string_to_array(current_setting('holdfast.signatures'), e'\n')
)
on conflict (only_row) do update
set release = excluded.release,
    functions_fingerprint = excluded.functions_fingerprint,
    signatures = excluded.signatures,
    changed_at = excluded.changed_at;
