-- Leases that are moved by hand are looked for once for each statement, not at each row of every claim.
drop trigger if exists lease_followed on jobs;
