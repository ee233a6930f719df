import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { signal, useSignal } from "@preact/signals";
import { asking, get, Problem } from "../lib/api";
import { onChange, useData } from "../lib/data";
import { Exact, inShort } from "../lib/exact";
import { useKeys } from "../lib/keys";
import { acted, moved, paused } from "../lib/live";
import { quoted, statesIn, withStates, withTerm, term } from "../lib/query";
import { go, jobAt, jobsAt, parameters } from "../lib/router";
import { may } from "../lib/settings";
import { CHIPS, mayCancel, mayDelete, mayRevive, type Chip } from "../lib/states";
import { toast } from "../lib/toasts";
import type { Action, Count, Job, JobPage } from "../lib/types";
import { firstLine, jobs as jobsInWords, number } from "../lib/words";
import { BulkDialog, type Target } from "../parts/bulk";
import { Icon } from "../parts/icon";
import { QueryBar } from "../parts/querybar";
import { Ago, Empty, Loading, Page, StateBadge, Trouble } from "../parts/small";

const PAGE = 50;
const LOOK_MS = 2500;
const ENDED = new Set(["COMPLETED", "STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED"]);

/** The list under one query. It only grows at its end, and when somebody asks for what is new. */
function makeList(q: string) {
  const jobs = signal<Job[]>([]);
  const next = signal<string | null>(null);
  const complete = signal(true);
  const fresh = signal(0);
  const loading = signal(true);
  const problem = signal<Problem | null>(null);
  let newest: JobPage | null = null;

  const ask = (cursor?: string | null) => get<JobPage>(asking("/api/jobs", { q, limit: PAGE, cursor }));
  const guarded = async (what: () => Promise<void>): Promise<void> => {
    try {
      await what();
      problem.value = null;
    } catch (error) {
      problem.value = error instanceof Problem ? error : new Problem(0, "This list has a fault.", String(error));
    }
    loading.value = false;
  };
  const show = (page: JobPage): void => {
    jobs.value = page.jobs;
    next.value = page.next;
    complete.value = page.complete;
    fresh.value = 0;
    newest = null;
  };
  return {
    jobs,
    next,
    complete,
    fresh,
    loading,
    problem,
    load: () => guarded(async () => show(await ask())),
    more: () =>
      guarded(async () => {
        if (!next.value) return;
        loading.value = true;
        const page = await ask(next.value);
        const known = new Set(jobs.value.map((each) => each.job_id));
        jobs.value = [...jobs.value, ...page.jobs.filter((each) => !known.has(each.job_id))];
        next.value = page.next;
        complete.value = page.complete;
      }),
    /** What is shown is brought up to date where it stands; what is new is only counted. */
    look: () =>
      guarded(async () => {
        const page = await ask();
        newest = page;
        const now = new Map(page.jobs.map((each) => [each.job_id, each]));
        const stale = jobs.value.filter((each) => !now.has(each.job_id) && !ENDED.has(each.state)).slice(0, 40);
        const ids = stale.map((each) => quoted(each.job_id)).join(",");
        if (ids && ids.length < 1800) {
          const again = await get<JobPage>(asking("/api/jobs", { q: `id:${ids}`, limit: PAGE }));
          for (const each of again.jobs) now.set(each.job_id, each);
        }
        const shown = new Set(jobs.value.map((each) => each.job_id));
        jobs.value = jobs.value.map((each) => now.get(each.job_id) ?? each);
        const count = page.jobs.findIndex((each) => shown.has(each.job_id));
        fresh.value = count < 0 ? page.jobs.length : page.jobs.filter((each) => !shown.has(each.job_id)).length;
        if (!shown.size) show(page);
      }),
    renew: () => {
      if (newest) show(newest);
    },
  };
}

function useList(q: string) {
  const list = useMemo(() => makeList(q), [q]);
  useEffect(() => {
    void list.load();
    let timer = 0;
    const leave = onChange(moved, () => {
      if (timer || document.hidden || paused.value) return;
      timer = window.setTimeout(() => {
        timer = 0;
        if (!document.hidden) void list.look();
      }, LOOK_MS);
    });
    const unacted = onChange(acted, () => void list.look());
    return () => {
      leave();
      unacted();
      clearTimeout(timer);
    };
  }, [list]);
  return list;
}

function ChipButton({ chip, q, on }: { chip: Chip | null; q: string; on: boolean }) {
  const asked = withStates(q, chip ? chip.states : null);
  const count = useData<Count>(asking("/api/jobs/count", { q: asked }), { busyMs: 8000, restMs: 0 });
  const seen = count.value.value;
  return (
    <a class={`chip ${chip ? `tone-${chip.tone}` : ""}`} href={jobsAt(asked)} aria-current={on ? "true" : undefined}>
      {chip && <Icon name={chip.icon} />}
      {chip?.word ?? "All"}
      <span class="chip-count">{seen ? number(seen.count, seen.capped) : "·"}</span>
    </a>
  );
}

function Chips({ q }: { q: string }) {
  const states = statesIn(q);
  const same = (chip: Chip): boolean => states !== null && [...chip.states].sort().join() === states.join();
  return (
    <nav class="chips" aria-label="Jobs by state">
      <ChipButton chip={null} q={q} on={states === null} />
      {CHIPS.map((chip) => (
        <ChipButton key={chip.word} chip={chip} q={q} on={same(chip)} />
      ))}
    </nav>
  );
}

const ACTIONS: { action: Action; word: string; role: "operator" | "admin"; fits: (job: Job) => boolean; icon: string }[] = [
  { action: "revive", word: "Retry", role: "operator", fits: mayRevive, icon: "again" },
  { action: "cancel", word: "Cancel", role: "operator", fits: mayCancel, icon: "stop" },
  { action: "delete", word: "Delete", role: "admin", fits: mayDelete, icon: "trash" },
];

function Said({ job }: { job: Job }) {
  if (job.error_message) return <span class="error-text">{firstLine(job.error_message)}</span>;
  if (job.progress) {
    const { done, total, message } = job.progress;
    return <span>{[total ? `${number(done)} of ${number(total)}` : number(done), message].filter(Boolean).join(", ")}</span>;
  }
  if (job.left_out?.includes("payload")) return <span class="faint">long arguments</span>;
  const said = job.payload instanceof Exact && !job.payload.isNull ? inShort(job.payload) : "";
  return <span class="faint mono">{said}</span>;
}

export function JobsPage() {
  const q = parameters.value.get("q") ?? "";
  const list = useList(q);
  // Signals: keys may come faster than the page is drawn, and each must see what the last one did.
  const at = useSignal(-1);
  const chosenIds = useSignal<ReadonlySet<string>>(new Set());
  const every = useSignal(false);
  const picked = chosenIds.value;
  const everything = every.value;
  const [asked, setAsked] = useState<{ action: Action; target: Target } | null>(null);
  const anchor = useRef(-1);
  const rows = list.jobs.value;

  const pickNone = (): void => {
    chosenIds.value = new Set();
    every.value = false;
  };
  useEffect(() => {
    at.value = -1;
    pickNone();
  }, [q]);

  const pick = (place: number, range = false): void => {
    const rows = list.jobs.value;
    const next = new Set(chosenIds.value);
    const on = !next.has(rows[place]?.job_id ?? "");
    const from = range && anchor.current >= 0 ? anchor.current : place;
    for (let each = Math.min(from, place); each <= Math.max(from, place); each += 1) {
      const id = rows[each]?.job_id;
      if (id === undefined) continue;
      if (on) next.add(id);
      else next.delete(id);
    }
    anchor.current = place;
    chosenIds.value = next;
    every.value = false;
  };
  const pickAll = (): void => {
    const rows = list.jobs.value;
    const all = rows.length > 0 && rows.every((each) => chosenIds.value.has(each.job_id));
    chosenIds.value = new Set(all ? [] : rows.map((each) => each.job_id));
    every.value = false;
  };
  const move = (step: number): void => {
    const next = Math.max(0, Math.min(list.jobs.value.length - 1, at.value + step));
    if (!list.jobs.value[next]) return;
    at.value = next;
    document.getElementById(`row-${next}`)?.focus();
  };
  const start = (action: Action): void => {
    const kind = ACTIONS.find((each) => each.action === action);
    if (!kind || !may(kind.role)) return;
    if (every.value) return setAsked({ action, target: { q } });
    const [rows, ids] = [list.jobs.value, chosenIds.value];
    const meant = rows.filter((each, place) => (ids.size ? ids.has(each.job_id) : place === at.value));
    if (!meant.length) return void toast("Pick jobs first: x picks the one you are on.");
    const fit = meant.filter(kind.fits);
    if (!fit.length) return void toast(`None of them can be ${action === "revive" ? "retried: only dead jobs can" : `${action}led now`}.`, { tone: "bad" });
    setAsked({ action, target: { ids: fit.map((each) => each.job_id), picked: fit } });
  };
  useKeys({
    "/": () => document.getElementById("query")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    x: () => at.value >= 0 && pick(at.value),
    X: pickAll,
    Enter: (event) => {
      const row = list.jobs.value[at.value];
      if (event.target instanceof HTMLElement && event.target.closest("a, button")) (event.target as HTMLElement).click();
      else if (row) go(jobAt(row.job_id));
    },
    r: () => start("revive"),
    c: () => start("cancel"),
    "#": () => start("delete"),
    n: () => list.renew(),
    Escape: pickNone,
  });

  const trouble = list.problem.value;
  const wrongQuery = trouble && (trouble.status === 400 || trouble.status === 422) ? trouble.detail || trouble.title : null;
  const chosen = everything || picked.size > 0;
  return (
    <Page title="Jobs">
      <div class="toolbar">
        <QueryBar q={q} onAsk={(next) => go(jobsAt(next))} trouble={wrongQuery} />
      </div>
      {!wrongQuery && <Chips q={q} />}
      {!wrongQuery && <Trouble problem={trouble} again={() => void list.load()} />}
      <div class={chosen ? "selection on" : "selection"} role="region" aria-label="What to do with jobs">
        <span class="selection-count">
          {everything
            ? "All jobs that match"
            : picked.size
              ? `${jobsInWords(picked.size)} picked`
              : q
                ? "All that match"
                : may("operator") && "Pick jobs, or narrow the list to act on all of it."}
        </span>
        {ACTIONS.filter((each) => may(each.role) && (chosen || q)).map(({ action, word, icon }) => (
          <button
            key={action}
            type="button"
            class="button small"
            onClick={() => (chosen ? start(action) : setAsked({ action, target: { q } }))}
          >
            <Icon name={icon} /> {chosen ? word : `${word} all…`}
          </button>
        ))}
        {q && picked.size > 0 && !everything && (list.next.value || rows.length > picked.size) && (
          <button type="button" class="linkish" onClick={() => (every.value = true)}>
            Take all that match instead
          </button>
        )}
        {chosen && (
          <button type="button" class="linkish" onClick={pickNone}>
            Pick none
          </button>
        )}
        <span class="grow" />
        <span aria-live="polite">
          {list.fresh.value > 0 && (
            <button type="button" class="button small new-jobs" onClick={list.renew}>
              <Icon name="up" /> {list.fresh.value >= PAGE ? `${PAGE}+` : list.fresh.value} new
            </button>
          )}
        </span>
      </div>
      {rows.length > 0 ? (
        <div class="table-box">
          <table class="jobs">
            <caption class="sr">Jobs, the latest first</caption>
            <thead>
              <tr>
                <th class="tick">
                  <input type="checkbox" aria-label="Pick all on this page" checked={rows.every((each) => picked.has(each.job_id))} onChange={pickAll} />
                </th>
                <th>State</th>
                <th>Job</th>
                <th class="task">Task</th>
                <th class="wide">Queue</th>
                <th class="right wide">Attempts</th>
                <th class="says">Error, progress or arguments</th>
                <th class="right">Created</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((job, place) => (
                <tr
                  key={job.job_id}
                  id={`row-${place}`}
                  tabIndex={place === Math.max(at.value, 0) ? 0 : -1}
                  class={picked.has(job.job_id) || everything ? "picked" : ""}
                  onFocus={() => (at.value = place)}
                  onClick={(event) => {
                    if (!(event.target as Element).closest("a, button, input")) go(jobAt(job.job_id));
                  }}
                >
                  <td class="tick">
                    <input
                      type="checkbox"
                      aria-label={`Pick ${job.job_id}`}
                      checked={picked.has(job.job_id) || everything}
                      onClick={(event) => pick(place, event.shiftKey)}
                    />
                  </td>
                  <td>
                    <StateBadge job={job} />
                  </td>
                  <td class="id">
                    <a href={jobAt(job.job_id)}>{job.job_id}</a>
                    {job.tags.slice(0, 3).map((tag) => (
                      <a key={tag} class="tag" href={jobsAt(withTerm(q, term("tag", tag)))}>
                        {tag}
                      </a>
                    ))}
                  </td>
                  <td class="cut task">
                    {job.task ? <a class="quiet" href={jobsAt(withTerm(q, term("task", job.task)))}>{job.task}</a> : <span class="faint">–</span>}
                  </td>
                  <td class="cut wide">
                    <a class="quiet" href={jobsAt(withTerm(q, term("queue", job.next_need)))}>{job.next_need}</a>
                  </td>
                  <td class="right wide num">
                    {job.attempts}
                    {job.max_attempts !== null && <span class="faint">/{job.max_attempts}</span>}
                  </td>
                  <td class="says cut">
                    <Said job={job} />
                  </td>
                  <td class="right nowrap">
                    <Ago at={job.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : list.loading.value ? (
        <Loading rows={10} />
      ) : (
        !trouble && <Empty title="No jobs match.">{q ? "Fewer terms find more." : "Enqueue one, and it appears here."}</Empty>
      )}
      <footer class="list-foot">
        {list.next.value && (
          <button type="button" class="button" disabled={list.loading.value} onClick={() => void list.more()}>
            {list.complete.value ? "Show more" : "Look further back"}
          </button>
        )}
        {!list.complete.value && <span class="faint">The search stopped before the oldest jobs.</span>}
      </footer>
      {asked && (
        <BulkDialog
          action={asked.action}
          target={asked.target}
          onClose={(done) => {
            setAsked(null);
            if (done) pickNone();
          }}
        />
      )}
    </Page>
  );
}
