import { useLayoutEffect, useRef } from "preact/hooks";
import { letters } from "./settings";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const layers: Keys[] = [];
let leader = "";
let leaderUntil = 0;

function typing(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement && target.type === "checkbox") return false;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** One key, or two in a row as "g j"; the layer that came last is asked first. */
function press(event: KeyboardEvent): void {
  if (event.defaultPrevented) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return run("Ctrl-K", event);
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") || letters.value === "off") return;
  const chord = leader && Date.now() < leaderUntil ? `${leader} ${event.key}` : "";
  leader = "";
  if (chord && layers.some((keys) => keys[chord])) return run(chord, event);
  if (layers.some((keys) => Object.keys(keys).some((each) => each.startsWith(`${event.key} `)))) {
    leader = event.key;
    leaderUntil = Date.now() + 1200;
  }
  run(event.key, event);
}

function run(key: string, event: KeyboardEvent): void {
  const found = layers.findLast((keys) => keys[key]);
  if (!found) return;
  event.preventDefault();
  found[key]?.(event);
}

document.addEventListener("keydown", press);

/** Listen to these keys as long as the component is there. Those of the frame come after those of any page. */
export function useKeys(keys: Keys, { frame = false } = {}): void {
  const layer = useRef<Keys>({});
  useLayoutEffect(() => {
    // The same object for the layer's whole life: its place in line must not change with every drawing.
    for (const key of Object.keys(layer.current)) delete layer.current[key];
    Object.assign(layer.current, keys);
  });
  useLayoutEffect(() => {
    if (frame) layers.unshift(layer.current);
    else layers.push(layer.current);
    return () => {
      layers.splice(layers.indexOf(layer.current), 1);
    };
  }, []);
}
