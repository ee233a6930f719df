-- What an attacker would put in the way of functions that look names up in his search_path. Whoever steps on it says so.

create table public.jobs (like holdfast.jobs);
create table public.archived_jobs (like holdfast.archived_jobs);
create table public.settings (like holdfast.settings);
create table public.holds (like holdfast.holds);

create temp table jobs (like holdfast.jobs);
create temp table archived_jobs (like holdfast.archived_jobs);
create temp table job_names (like holdfast.job_names);
create temp table job_waits (like holdfast.job_waits);
create temp table job_errors (like holdfast.job_errors);
create temp table jobs_trace (like holdfast.jobs_trace);
create temp table holds (like holdfast.holds);
create temp table resources (like holdfast.resources);
create temp table queues (like holdfast.queues);
create temp table settings (like holdfast.settings);

create function public.trap() returns void language plpgsql
as $$ begin raise exception 'stepped on a trap' using errcode = 'HF666'; end $$;

create function public.now() returns timestamptz language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.clock_timestamp() returns timestamptz language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public._clock() returns timestamptz language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public._require(text, text) returns void language plpgsql as $$ begin perform public.trap(); end $$;
create function public._public_id(text, bigint) returns text language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public._job_number(text) returns bigint language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.gen_random_uuid() returns uuid language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.nextval(regclass) returns bigint language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.pg_notify(text, text) returns void language plpgsql as $$ begin perform public.trap(); end $$;
create function public.quote_literal(text) returns text language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.octet_length(text) returns integer language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.array_to_string(text[], text) returns text language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.translate(text, text, text) returns text language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.to_char(timestamp, text) returns text language plpgsql as $$ begin perform public.trap(); return null; end $$;
create function public.jsonb_strip_nulls(jsonb) returns jsonb language plpgsql as $$ begin perform public.trap(); return null; end $$;

create function public.same(text, text) returns boolean language plpgsql as $$ begin perform public.trap(); return true; end $$;
create function public.same(bigint, bigint) returns boolean language plpgsql as $$ begin perform public.trap(); return true; end $$;
create function public.same(timestamptz, timestamptz) returns boolean language plpgsql as $$ begin perform public.trap(); return true; end $$;
create function public.same(text[], text[]) returns boolean language plpgsql as $$ begin perform public.trap(); return true; end $$;
create function public.joined(text, text) returns text language plpgsql as $$ begin perform public.trap(); return ''; end $$;
create operator public.= (leftarg = text, rightarg = text, function = public.same);
create operator public.<> (leftarg = text, rightarg = text, function = public.same);
create operator public.= (leftarg = bigint, rightarg = bigint, function = public.same);
create operator public.> (leftarg = timestamptz, rightarg = timestamptz, function = public.same);
create operator public.<= (leftarg = timestamptz, rightarg = timestamptz, function = public.same);
create operator public.@> (leftarg = text[], rightarg = text[], function = public.same);
create operator public.<@ (leftarg = text[], rightarg = text[], function = public.same);
create operator public.|| (leftarg = text, rightarg = text, function = public.joined);
