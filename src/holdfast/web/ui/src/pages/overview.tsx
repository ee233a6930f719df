import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { asking } from "../lib/api";
import { useData } from "../lib/data";
import { jobsAt } from "../lib/router";
import { span } from "../lib/settings";
import type { Tone } from "../lib/states";
import type { DeadGroup, Health, History, Point, Stats } from "../lib/types";
import { duration, inSeconds, learnClock, number, since, time } from "../lib/words";
import { Chart, zoom } from "../parts/chart";
import { Icon } from "../parts/icon";
import { Ago, Loading, Page, Trouble } from "../parts/small";

function Tile({ word, tone, href, children, about }: { word: string; tone?: Tone; href?: string; children: ComponentChildren; about?: ComponentChildren }) {
  const inner = (
    <>
      <span class="tile-word">{word}</span>
      <span class={tone ? `tile-value tone-${tone}` : "tile-value"}>{children}</span>
      <span class="tile-about">{about}</span>
    </>
  );
  return href ? (
    <a class="tile" href={href}>
      {inner}
    </a>
  ) : (
    <div class="tile">{inner}</div>
  );
}

const SLOW_S = 60;

function Tiles({ stats }: { stats: Stats }) {
  const minute = stats.ended_last_minute;
  const hour = stats.ended_last_hour;
  const ended = Object.values(hour).reduce((sum, each) => sum + (each ?? 0), 0);
  const died = hour.DEAD ?? 0;
  const wait = stats.oldest_due_at ? Math.max(0, since(stats.oldest_due_at)) : 0;
  const rate = (minute.COMPLETED ?? 0) / 60;
  return (
    <div class="tiles">
      <Tile word="Due" href={jobsAt("status:READY")} about={`${number(stats.delayed)} delayed, ${number(stats.blocked)} blocked`}>
        {number(stats.due, stats.capped && stats.due >= 10_000)}
      </Tile>
      <Tile word="Running" href={jobsAt("state:RUNNING,CANCELLING")} about={stats.paused.length ? `${number(stats.paused.length)} queues paused` : "in the hands of workers"}>
        {number(stats.held)}
      </Tile>
      <Tile word="Longest wait" tone={wait > SLOW_S ? "warn" : undefined} about="first of the due">
        {stats.oldest_due_at ? inSeconds(wait) : "–"}
      </Tile>
      <Tile word="Throughput" href={jobsAt("state:COMPLETED finished<1h")} about={`${number(hour.COMPLETED ?? 0)} in the last hour`}>
        {rate >= 10 || rate === 0 ? number(rate) : rate.toFixed(1)}
        <small>/s</small>
      </Tile>
      <Tile word="Died" tone={died ? "bad" : undefined} href={jobsAt("state:DEAD finished<1h")} about={ended ? `${((100 * died) / ended).toFixed(1)} % of the last hour` : "in the last hour"}>
        {number(died)}
      </Tile>
      <Tile word="Dead letters" tone={stats.dead ? "bad" : undefined} href="/dead" about="until somebody decides">
        {number(stats.dead, stats.capped && stats.dead >= 10_000)}
      </Tile>
    </div>
  );
}

const rate = (value: number): string => (value >= 1000 ? `${(value / 1000).toFixed(value >= 10_000 ? 0 : 1)}k` : number(value));
const lasted = (ms: number): string => (ms <= 0 ? "0" : duration(ms / 1000));
const seconds = (value: number): string => (value <= 0 ? "0" : duration(value));

function useCharts(history: History | null) {
  return useMemo(() => {
    const points = history?.points ?? [];
    const of = (field: keyof Point): (number | null)[] => points.map((each) => each[field] as number | null);
    return { times: points.map((each) => Date.parse(each.at) / 1000), of };
  }, [history]);
}

const SPANS: [typeof span.value, string][] = [
  ["60", "1 h"],
  ["360", "6 h"],
  ["1440", "24 h"],
];

function ago(at: number): string {
  return `${Math.max(0, Math.round(Date.now() / 1000 - at))}s`;
}

function Charts() {
  const data = useData<History>(asking("/api/history", { minutes: span.value }), { busyMs: 10_000, restMs: 30_000 });
  const history = data.value.value;
  const { times, of } = useCharts(history);
  const missing = data.error.value?.status === 404;
  const [from, to] = zoom.value ?? [0, 0];
  const per = history && history.step_s !== 60 ? `each ${duration(history.step_s)}` : "a minute";
  return (
    <section aria-label="Charts">
      <div class="charts-head">
        <div class="segments" role="group" aria-label="How far back">
          {SPANS.map(([minutes, word]) => (
            <button
              key={minutes}
              type="button"
              aria-pressed={span.value === minutes}
              onClick={() => {
                zoom.value = null;
                span.value = minutes;
              }}
            >
              {word}
            </button>
          ))}
        </div>
        {zoom.value ? (
          <>
            <span>
              {time(new Date(from * 1000).toISOString())} to {time(new Date(to * 1000).toISOString())}
            </span>
            <a class="button small" href={jobsAt(`age<${ago(from)} age>${ago(to)}`)}>
              Jobs of this window
            </a>
            <button type="button" class="button small" onClick={() => (zoom.value = null)}>
              Show all
            </button>
          </>
        ) : (
          <span class="faint">Drag over a chart to zoom.</span>
        )}
      </div>
      <Trouble problem={missing ? null : data.error.value} again={() => void data.refresh()} />
      {missing && <p class="faint card">This server keeps no figures of the past.</p>}
      {history && times.length === 0 && <p class="faint card">Figures of the past appear here a minute after the first jobs ended.</p>}
      {times.length > 0 && (
        <div class="charts">
          <Chart
            title={`Ended ${per}`}
            times={times}
            say={rate}
            series={[
              { word: "completed", colour: "good", values: of("completed"), area: true },
              { word: "died", colour: "bad", values: of("dead") },
              { word: "cancelled", colour: "ended", values: of("cancelled"), dash: true },
            ]}
          />
          <Chart
            title="Time in line"
            times={times}
            say={lasted}
            series={[
              { word: "half within", colour: "running", values: of("wait_p50_ms"), area: true },
              { word: "95 % within", colour: "warn", values: of("wait_p95_ms"), dash: true },
            ]}
          />
          <Chart
            title="Time running"
            times={times}
            say={lasted}
            series={[
              { word: "half within", colour: "running", values: of("run_p50_ms"), area: true },
              { word: "95 % within", colour: "warn", values: of("run_p95_ms"), dash: true },
            ]}
          />
          <Chart title="Depth of the lines" times={times} say={rate} series={[{ word: "waiting", colour: "accent", values: of("depth"), area: true }]} />
          <Chart title="Longest wait" times={times} say={seconds} series={[{ word: "oldest job", colour: "warn", values: of("oldest_s"), area: true }]} />
        </div>
      )}
    </section>
  );
}

function TopErrors() {
  const data = useData<{ groups: DeadGroup[] }>("/api/dead", { busyMs: 8000, restMs: 30_000 });
  const groups = data.value.value?.groups.slice(0, 5) ?? [];
  if (!groups.length) return null;
  return (
    <section class="card">
      <h2>
        What goes wrong <a class="more" href="/dead">All dead letters</a>
      </h2>
      <ul class="wrongs">
        {groups.map((group) => (
          <li key={group.fingerprint}>
            <strong class="num">{number(group.count, group.capped)}</strong>
            <a class="cut" href={jobsAt(group.q)}>
              {group.error || "No message"}
            </a>
            <span class="faint cut">{group.task ?? ""}</span>
            <span class="faint nowrap">
              <Ago at={group.last_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function OverviewPage() {
  const health = useData<Health>("/api/health", { busyMs: 5000 });
  const stats = useData<Stats>("/api/stats", { busyMs: 3000 });
  const seen = health.value.value;
  const figures = stats.value.value;
  learnClock(figures?.at);
  const tone = !seen?.ok ? "bad" : seen.findings.some((each) => each.level !== "OK") ? "warn" : "good";
  return (
    <Page title="Overview">
      <Trouble problem={health.error.value ?? stats.error.value} again={() => void stats.refresh()} />
      {seen && (
        <p class={`health tone-${tone}`} role="status">
          <Icon name={tone === "good" ? "check" : "alert"} />
          <span class="health-text">{seen.sentence}</span>
          {tone !== "good" && <a href="/system">What to do</a>}
        </p>
      )}
      {figures ? <Tiles stats={figures} /> : !stats.error.value && <Loading rows={2} />}
      <Charts />
      <TopErrors />
    </Page>
  );
}
