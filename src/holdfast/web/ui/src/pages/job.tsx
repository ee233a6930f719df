import { useState } from "preact/hooks";
import { act } from "../lib/acting";
import { path } from "../lib/api";
import { useData } from "../lib/data";
import { Exact } from "../lib/exact";
import { useKeys } from "../lib/keys";
import { term } from "../lib/query";
import { go, jobsAt } from "../lib/router";
import { may } from "../lib/settings";
import { lookOf, mayCancel, mayDelete, mayRevive } from "../lib/states";
import { story, type Stretch } from "../lib/story";
import type { ErrorEntry, Job, JobView, TraceEvent } from "../lib/types";
import { duration, firstLine, moment, now, number, skew, time } from "../lib/words";
import { BulkDialog } from "../parts/bulk";
import { Graph } from "../parts/graph";
import { Icon } from "../parts/icon";
import { Json } from "../parts/json";
import { Ago, Copy, Loading, Page, StateBadge, Trouble } from "../parts/small";

function Waterfall({ job }: { job: JobView }) {
  const stretches = story(job, now.value + skew.value);
  const first = stretches[0];
  const last = stretches.at(-1);
  if (!first || !last) return null;
  const whole = Math.max(1, last.to - first.from);
  // A run of milliseconds after hours of waiting is still to be seen.
  const share = (each: Stretch): number => Math.max(0.012, (each.to - each.from) / whole);
  const sum = stretches.reduce((total, each) => total + share(each), 0);
  const look = (each: Stretch): string => `bar-${each.kind}${each.open ? " bar-open" : ""}`;
  return (
    <div class="waterfall">
      <div class="bars" aria-hidden="true">
        {stretches.map((each, place) => (
          <div key={place} class={`bar ${look(each)}`} style={{ width: `${(share(each) / sum) * 100}%` }} title={`${each.word}, ${duration((each.to - each.from) / 1000)}`} />
        ))}
      </div>
      <ol class="stretches">
        {stretches.map((each, place) => (
          <li key={place}>
            <span class={`dot ${look(each)}`} aria-hidden="true" />
            <span class="grow">{each.word}</span>
            <span class="faint num">{time(new Date(each.from).toISOString())}</span>
            <strong class="num">{duration((each.to - each.from) / 1000)}</strong>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Failure({ error, open }: { error: ErrorEntry; open: boolean }) {
  return (
    <details class="failure" open={open}>
      <summary>
        <Icon name="chevron" class="fold" />
        <span class="failure-title">
          Attempt {error.attempt} <span class="error-text">{firstLine(error.message)}</span>
        </span>
        <span class="faint nowrap">
          <Ago at={error.at} />
        </span>
      </summary>
      <div class="failure-body">
        <p class="faint">
          {moment(error.at)}
          {error.worker_id && <> on {error.worker_id}</>}
        </p>
        {error.message.includes("\n") && (
          <pre class="code" tabIndex={0}>
            {error.message}
          </pre>
        )}
        {error.traceback ? (
          <div class="traceback">
            <Copy text={`${error.message}\n${error.traceback}`} what="the traceback" />
            <pre class="code" tabIndex={0}>
              {error.traceback}
            </pre>
          </div>
        ) : (
          <p class="faint">No traceback was kept.</p>
        )}
      </div>
    </details>
  );
}

function facts(job: Job): [string, preact.ComponentChildren][] {
  const all: [string, preact.ComponentChildren][] = [
    ["Queue", <a href={jobsAt(term("queue", job.next_need))}>{job.next_need}</a>],
    ["Task", job.task && <a href={jobsAt(term("task", job.task))}>{job.task}</a>],
    ["Worker", job.assignee_id && <a href={jobsAt(term("worker", job.assignee_id))}>{job.assignee_id}</a>],
    ["Attempts", job.max_attempts === null ? number(job.attempts) : `${number(job.attempts)} of ${number(job.max_attempts)}`],
    ["Priority", job.priority ? number(job.priority) : null],
    ["Tags", job.tags.length ? job.tags.map((tag) => <a key={tag} class="tag" href={jobsAt(term("tag", tag))}>{tag}</a>) : null],
    ["Singleton key", job.singleton_key && <code>{job.singleton_key}</code>],
    ["Resources", job.resource_keys.length ? job.resource_keys.join(", ") : null],
    ["Timeout", job.timeout_s === null ? null : duration(job.timeout_s)],
    ["Leases lapsed", job.lease_expiration_count ? number(job.lease_expiration_count) : null],
    ["Created", <Ago at={job.created_at} />],
    ["Available", job.available_at > job.created_at ? <Ago at={job.available_at} /> : null],
    ["Expires", job.expires_at && <Ago at={job.expires_at} />],
    ["Started", job.started_at && <Ago at={job.started_at} />],
    ["Lease until", (job.state === "RUNNING" || job.state === "CANCELLING") && job.lease_expires_at && <Ago at={job.lease_expires_at} />],
    ["Ended", job.finalized_at && <Ago at={job.finalized_at} />],
  ];
  return all.filter(([, value]) => value);
}

function Content({ value, bytes, what }: { value: Exact; bytes: string | null; what: string }) {
  if (bytes !== null) {
    return (
      <div class="code wrap">
        <Copy text={bytes} what={`${what} as base64`} />
        <span class="faint">Bytes, as base64: </span>
        {bytes}
      </div>
    );
  }
  if (!(value instanceof Exact) || value.isNull) return <p class="faint">None.</p>;
  return <Json value={value} what={what} />;
}

function Progress({ job }: { job: Job }) {
  if (!job.progress) return null;
  const { done, total, message, at } = job.progress;
  return (
    <section class="card">
      <h2>Progress</h2>
      <progress max={total ?? undefined} value={total === null ? undefined : done} aria-label="Progress of the job" />
      <p>
        {total === null ? number(done) : `${number(done)} of ${number(total)}`}
        {message && `, ${message}`} <span class="faint">(<Ago at={at} />)</span>
      </p>
    </section>
  );
}

function TraceTable({ trace }: { trace: JobView["trace"] }) {
  const shown = (event: TraceEvent, which: "given" | "became"): string => {
    const text = event[which] instanceof Exact ? event[which].text : "";
    return text === "{}" || text === "null" ? "" : text;
  };
  return (
    <section class="card">
      <h2>
        Trace <span class="faint">level {trace.level}</span>
      </h2>
      {trace.events.length ? (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th>When</th>
                <th>Event</th>
                <th>Worker</th>
                <th class="says">Given</th>
                <th class="says wide">Became</th>
              </tr>
            </thead>
            <tbody>
              {trace.events.map((event, place) => (
                <tr key={place}>
                  <td class="nowrap num" title={event.at}>{time(event.at)}</td>
                  <td class="nowrap">{event.event}</td>
                  <td class="cut">{event.worker_id ?? ""}</td>
                  <td class="says cut mono" title={shown(event, "given")}>{shown(event, "given")}</td>
                  <td class="says cut mono wide" title={shown(event, "became")}>{shown(event, "became")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="faint">
          Nothing was traced of this job{trace.level === "all" ? "." : ": at this level the happy path is left out."}
        </p>
      )}
    </section>
  );
}

export function JobPage({ id }: { id: string }) {
  const data = useData<JobView>(path("/api/jobs", id), { busyMs: 1500, restMs: 10_000 });
  const [deleting, setDeleting] = useState(false);
  const job = data.value.value;
  const can = {
    revive: job && may("operator") && mayRevive(job),
    cancel: job && may("operator") && mayCancel(job),
    delete: job && may("admin") && mayDelete(job),
  };
  useKeys({
    r: () => job && can.revive && void act("revive", job),
    c: () => job && can.cancel && void act("cancel", job),
    "#": () => can.delete && setDeleting(true),
  });
  const title = (
    <span class="job-title">
      <a href="/jobs" class="crumb">Jobs</a>
      <Icon name="chevron" />
      <span class="cut" title={id}>{id}</span>
      <Copy text={id} what="the id" />
    </span>
  );
  if (!job) {
    return (
      <Page title={title}>
        {data.error.value ? <Trouble problem={data.error.value} again={() => void data.refresh()} /> : <Loading rows={8} />}
      </Page>
    );
  }
  const actions = (
    <>
      {can.revive && (
        <button type="button" class="button primary" onClick={() => void act("revive", job)}>
          <Icon name="again" /> Retry
        </button>
      )}
      {can.cancel && (
        <button type="button" class="button" onClick={() => void act("cancel", job)}>
          <Icon name="stop" /> Cancel
        </button>
      )}
      {can.delete && (
        <button type="button" class="button" onClick={() => setDeleting(true)}>
          <Icon name="trash" /> Delete…
        </button>
      )}
    </>
  );
  const errors = [...job.errors].reverse();
  const about = (
    <>
      <StateBadge job={job} /> <span>{lookOf(job).means}</span>
    </>
  );
  return (
    <Page title={title} about={about} actions={actions}>
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      <div class="job-grid">
        <div class="job-main">
          <section class="card">
            <h2>Timeline</h2>
            <Waterfall job={job} />
          </section>
          <Progress job={job} />
          {(errors.length > 0 || job.error_message) && (
            <section class="card">
              <h2>
                Errors {errors.length > 1 && <span class="faint">{number(errors.length)}, the latest first</span>}
              </h2>
              {errors.length === 0 && <p class="error-text">{job.error_message}</p>}
              {errors.map((error, place) => (
                <Failure key={`${error.attempt} ${error.at}`} error={error} open={place === 0} />
              ))}
            </section>
          )}
          <section class="card">
            <h2>Arguments</h2>
            <Content value={job.payload} bytes={job.payload_bytes} what="the arguments" />
          </section>
          {job.state === "COMPLETED" && (
            <section class="card">
              <h2>Result</h2>
              <Content value={job.result} bytes={job.result_bytes} what="the result" />
            </section>
          )}
          {(job.parents.length > 0 || job.children.length > 0 || job.wait_for.length > 0) && (
            <section class="card">
              <h2>
                Dependencies <span class="faint">waits for {number(job.wait_for.length)}, waited for by {number(job.children.length, job.children.length >= 100)}</span>
              </h2>
              <Graph job={job} />
            </section>
          )}
          <TraceTable trace={job.trace} />
        </div>
        <aside class="card facts" aria-label="Facts">
          <dl>
            {facts(job).map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </aside>
      </div>
      {deleting && (
        <BulkDialog
          action="delete"
          target={{ ids: [job.job_id], picked: [job] }}
          onClose={(done) => {
            setDeleting(false);
            if (done) go("/jobs");
          }}
        />
      )}
    </Page>
  );
}
