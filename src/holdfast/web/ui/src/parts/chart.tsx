import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import type uPlot from "uplot";
import { theme } from "../lib/settings";
import { time } from "../lib/words";

export interface Series {
  word: string;
  /** The name of a colour of the style sheet, without its dashes. */
  colour: string;
  values: (number | null)[];
  area?: boolean;
  dash?: boolean;
}

interface Props {
  title: string;
  times: number[];
  series: Series[];
  say: (value: number) => string;
}

/** The window all charts show, in seconds; null: everything there is. */
export const zoom = signal<[number, number] | null>(null);

const SYNC = "overview";

/** Steps of the axis: whole, for half a job and half a millisecond would be called one. */
const STEPS = Array.from({ length: 30 }, (_, place) => [1, 2, 5][place % 3]! * 10 ** Math.floor(place / 3));

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

/** Values with nothing on either side: a line takes two, and what a quiet queue did once would not be seen. */
function alone(values: ArrayLike<number | null | undefined>): number[] {
  return Array.from(values, (_, place) => place).filter(
    (place) => values[place] != null && values[place - 1] == null && values[place + 1] == null,
  );
}

function options(plot: typeof uPlot, { series, say }: Props, width: number): uPlot.Options {
  const faint = colour("faint");
  const line = colour("line");
  const axis: uPlot.Axis = {
    stroke: faint,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
    font: "11px Inter, system-ui, sans-serif",
    gap: 6,
  };
  return {
    width,
    height: 150,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      y: false,
    },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: [[1, "{HH}:{mm}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 54, space: 34, incrs: STEPS, values: (_, ticks) => ticks.map(say) },
    ],
    series: [
      {},
      ...series.map((each) => ({
        label: each.word,
        stroke: colour(each.colour),
        width: 1.6,
        ...(each.area ? { fill: `${colour(each.colour)}22` } : {}),
        ...(each.dash ? { dash: [4, 3] } : {}),
        points: { show: true, size: 5, fill: colour(each.colour), filter: (drawn: uPlot, place: number) => alone(drawn.data[place] ?? []) },
        spanGaps: false,
        paths: plot.paths.linear?.(),
      })),
    ],
    hooks: {
      setSelect: [
        (drawn) => {
          const { left, width: wide } = drawn.select;
          if (wide > 4) zoom.value = [drawn.posToVal(left, "x"), drawn.posToVal(left + wide, "x")];
          drawn.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** Lines over time. Drag to zoom all charts at once; a table has the same for those who cannot see them. */
export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [open, setOpen] = useState(false);
  const { times, series, title, say } = props;
  const shape = series.map((each) => each.word).join() + theme.value;

  useEffect(() => {
    let gone = false;
    let watch: ResizeObserver | null = null;
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: plot }]) => {
      const host = box.current;
      if (gone || !host) return;
      const made = new plot(options(plot, props, host.clientWidth), [times, ...series.map((each) => each.values)] as uPlot.AlignedData, host);
      made.over.addEventListener("mousemove", () => setAt(made.cursor.idx ?? null));
      made.over.addEventListener("mouseleave", () => setAt(null));
      drawn.current = made;
      rescale();
      watch = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: 150 }));
      watch.observe(host);
    });
    return () => {
      gone = true;
      watch?.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [shape]);

  const rescale = (): void => {
    const [from, to] = zoom.value ?? [times[0] ?? 0, times.at(-1) ?? 1];
    drawn.current?.setScale("x", { min: from, max: to });
  };
  useEffect(() => {
    drawn.current?.setData([times, ...series.map((each) => each.values)] as uPlot.AlignedData, false);
    rescale();
  }, [times, zoom.value]);

  const place = at ?? times.length - 1;
  const name = title.toLowerCase().replace(/\W+/g, "-");
  return (
    <figure class="card chart" aria-labelledby={`chart-${name}`}>
      <figcaption id={`chart-${name}`}>
        <h2>{title}</h2>
        <ul class="legend">
          {series.map((each) => (
            <li key={each.word}>
              <span class={`swatch swatch-${each.colour}${each.dash ? " dashed" : ""}`} aria-hidden="true" />
              {each.word} <strong class="num">{each.values[place] == null ? "–" : say(each.values[place] as number)}</strong>
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
      <details class="chart-data" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="sr">{title} </span>as a table
        </summary>
        {open && (
          <div class="table-box low" tabIndex={0} role="group" aria-label={`${title} as a table`}>
            <table>
              <thead>
                <tr>
                  <th>Time</th>
                  {series.map((each) => (
                    <th key={each.word} class="right">
                      {each.word}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {times.map((moment, row) => (
                  <tr key={moment}>
                    <td class="num">{time(new Date(moment * 1000).toISOString())}</td>
                    {series.map((each) => (
                      <td key={each.word} class="right num">
                        {each.values[row] == null ? "–" : say(each.values[row] as number)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </details>
    </figure>
  );
}
