import { useEffect, useState } from "preact/hooks";
import { jobAt } from "../lib/router";
import { lookOf } from "../lib/states";
import type { JobView, Relative } from "../lib/types";
import { Icon } from "./icon";

const WIDE = 190;
const HIGH = 46;
const MOST = 24;

interface Box {
  id: string;
  job: Relative | null;
  x: number;
  y: number;
}

interface Drawing {
  boxes: Box[];
  lines: string[];
  width: number;
  height: number;
}

/** Who is drawn: what it waits for, itself, what waits for it; and every wait among those. */
function family(job: JobView): { jobs: Map<string, Relative | null>; waits: [string, string][]; left: number } {
  const parents = new Map(job.parents.map((each) => [each.job_id, each]));
  const jobs = new Map<string, Relative | null>();
  for (const id of [...new Set([...parents.keys(), ...job.wait_for])].slice(0, MOST)) jobs.set(id, parents.get(id) ?? null);
  jobs.set(job.job_id, job);
  for (const child of job.children.slice(0, MOST)) jobs.set(child.job_id, child);
  const waits: [string, string][] = [];
  for (const parent of job.wait_for) if (jobs.has(parent)) waits.push([parent, job.job_id]);
  const add = (from: string, to: string): void => {
    if (jobs.has(from) && jobs.has(to) && !waits.some((each) => each[0] === from && each[1] === to)) waits.push([from, to]);
  };
  for (const id of parents.keys()) add(id, job.job_id);
  for (const child of job.children) add(job.job_id, child.job_id);
  const all = new Set([...parents.keys(), ...job.wait_for, ...job.children.map((each) => each.job_id)]).size + 1;
  return { jobs, waits, left: all - jobs.size };
}

async function draw(job: JobView): Promise<Drawing> {
  const dagre = await import("@dagrejs/dagre");
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 56, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  const { jobs, waits } = family(job);
  // Ids are anything; places in a list are safe names for nodes.
  const names = new Map([...jobs.keys()].map((id, place) => [id, `n${place}`]));
  for (const name of names.values()) graph.setNode(name, { width: WIDE, height: HIGH });
  for (const [from, to] of waits) graph.setEdge(names.get(from) ?? "", names.get(to) ?? "");
  dagre.layout(graph);
  const boxes = [...jobs].map(([id, each]) => {
    const node = graph.node(names.get(id) ?? "") as { x: number; y: number };
    return { id, job: each, x: node.x - WIDE / 2, y: node.y - HIGH / 2 };
  });
  const lines = graph.edges().map((edge) => {
    const points = (graph.edge(edge) as { points: { x: number; y: number }[] }).points;
    return points.map(({ x, y }, place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  });
  const size = graph.graph() as { width?: number; height?: number };
  return { boxes, lines, width: size.width ?? WIDE, height: size.height ?? HIGH };
}

const short = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The job among those it waits for and those that wait for it. Each is a link; the picture is made when needed. */
export function Graph({ job }: { job: JobView }) {
  const [drawing, setDrawing] = useState<Drawing | null>(null);
  const shape = JSON.stringify([...family(job).jobs].map(([id, each]) => [id, each?.state, each?.status]));
  useEffect(() => {
    let wanted = true;
    void draw(job).then((made) => wanted && setDrawing(made));
    return () => {
      wanted = false;
    };
  }, [shape]);
  const left = family(job).left;
  if (!drawing) return <div class="bone tall" />;
  return (
    <div class="graph" tabIndex={0} role="group" aria-label="Dependencies">
      <svg width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`}>
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path class="tip" d="M0 0.5L8 4L0 7.5z" />
          </marker>
        </defs>
        {drawing.lines.map((line, place) => (
          <path key={place} class="edge" d={line} marker-end="url(#tip)" />
        ))}
        {drawing.boxes.map((box) => {
          const look = box.job ? lookOf(box.job) : null;
          const self = box.id === job.job_id;
          return (
            <a key={box.id} href={jobAt(box.id)} aria-current={self ? "true" : undefined}>
              <title>{`${box.id}${look ? `: ${look.word}` : ""}`}</title>
              <g class={`node ${self ? "self" : ""}`} transform={`translate(${box.x} ${box.y})`}>
                <rect width={WIDE} height={HIGH} rx="7" />
                <text x="12" y="19" class="node-id">{short(box.id, 24)}</text>
                <g class={`tone-${look?.tone ?? "ended"} node-state`} transform="translate(11 25)">
                  <g transform="scale(0.8)">
                    <Icon name={look?.icon ?? "question"} />
                  </g>
                  <text x="18" y="10.5">{short([look?.word ?? "Not in sight", box.job?.task].filter(Boolean).join(" · "), 26)}</text>
                </g>
              </g>
            </a>
          );
        })}
      </svg>
      {left > 0 && <p class="faint">{left} more are not drawn.</p>}
    </div>
  );
}
