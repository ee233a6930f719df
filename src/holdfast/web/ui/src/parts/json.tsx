import { useState } from "preact/hooks";
import { type Exact, pretty, tree, type Tree } from "../lib/exact";
import { Copy } from "./small";

const MANY = 40;

function size(node: Tree): number {
  return node.kind === "object" ? node.entries.length : node.kind === "array" ? node.items.length : 0;
}

function Node({ name, node, depth, last }: { name?: string; node: Tree; depth: number; last: boolean }) {
  const count = size(node);
  const [open, setOpen] = useState(depth < 3 && count <= MANY);
  const label = name === undefined ? null : <span class="json-key">{JSON.stringify(name)}: </span>;
  const comma = last ? "" : ",";
  if (node.kind === "object" || node.kind === "array") {
    const [before, behind] = node.kind === "object" ? ["{", "}"] : ["[", "]"];
    if (!count) {
      return (
        <div class="json-line">
          {label}
          {before + behind + comma}
        </div>
      );
    }
    const inner: [string | undefined, Tree][] =
      node.kind === "object" ? node.entries : node.items.map((each) => [undefined, each]);
    return (
      <div class="json-node">
        <button type="button" class="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
          {label}
          {open ? before : `${before} … ${behind}${comma}`}
          {!open && <span class="json-count"> {count === 1 ? "1 entry" : `${count} entries`}</span>}
        </button>
        {open && (
          <>
            <div class="json-inner">
              {inner.map(([key, each], place) => (
                <Node key={place} name={key} node={each} depth={depth + 1} last={place === inner.length - 1} />
              ))}
            </div>
            <div class="json-line">{behind + comma}</div>
          </>
        )}
      </div>
    );
  }
  return (
    <div class="json-line">
      {label}
      <span class={`json-${node.kind}`}>{node.text}</span>
      {comma}
    </div>
  );
}

/** A value as it was sent: every digit of every number, keys in their order, parts that fold. */
export function Json({ value, what }: { value: Exact; what: string }) {
  let drawn: Tree;
  let text: string;
  try {
    drawn = tree(value);
    text = pretty(value);
  } catch {
    return <pre class="code">{value.text}</pre>;
  }
  return (
    <div class="json code" role="group" aria-label={what} tabIndex={0}>
      <Copy text={text} what={what} />
      <Node node={drawn} depth={0} last />
    </div>
  );
}
