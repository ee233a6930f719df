// JSON as it was sent. JSON.parse rounds what is beyond 2^53 and sorts keys that look like numbers,
// so payloads and results keep their source text, and are taken apart here only to be drawn.

/** A value by its own source text. */
export class Exact {
  constructor(readonly text: string) {}

  get isNull(): boolean {
    return this.text === "null";
  }
}

export type Tree =
  | { kind: "object"; entries: [string, Tree][] }
  | { kind: "array"; items: Tree[] }
  | { kind: "string" | "number" | "word"; text: string };

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const ATOM = /-?\d[\d.eE+-]*|true|false|null/y;

class Reader {
  place = 0;

  constructor(readonly text: string) {}

  match(pattern: RegExp): string {
    pattern.lastIndex = this.place;
    const found = pattern.exec(this.text);
    if (!found) throw new SyntaxError(`no JSON at ${this.place}`);
    this.place = pattern.lastIndex;
    return found[0];
  }

  /** The next sign behind spaces; it is taken only if it is this one. */
  takes(sign: string): boolean {
    this.match(SPACE);
    if (this.text[this.place] !== sign) return false;
    this.place += 1;
    return true;
  }

  wants(sign: string): void {
    if (!this.takes(sign)) throw new SyntaxError(`no ${sign} at ${this.place}`);
  }
}

function members<T>(reader: Reader, value: (key: string) => T): [string, T][] {
  const found: [string, T][] = [];
  if (reader.takes("}")) return found;
  do {
    reader.match(SPACE);
    const key = JSON.parse(reader.match(STRING)) as string;
    reader.wants(":");
    found.push([key, value(key)]);
  } while (reader.takes(","));
  reader.wants("}");
  return found;
}

function items<T>(reader: Reader, value: () => T): T[] {
  const found: T[] = [];
  if (reader.takes("]")) return found;
  do found.push(value());
  while (reader.takes(","));
  reader.wants("]");
  return found;
}

function treeOf(reader: Reader): Tree {
  if (reader.takes("{")) return { kind: "object", entries: members(reader, () => treeOf(reader)) };
  if (reader.takes("[")) return { kind: "array", items: items(reader, () => treeOf(reader)) };
  if (reader.text[reader.place] === '"') return { kind: "string", text: reader.match(STRING) };
  const text = reader.match(ATOM);
  return { kind: /^[tfn]/.test(text) ? "word" : "number", text };
}

/** The value as a tree to be drawn: numbers by their digits, keys in their order. */
export function tree(value: Exact): Tree {
  return treeOf(new Reader(value.text));
}

const KEPT = new Set(["payload", "result", "given", "became"]);

function valueOf(reader: Reader): unknown {
  // Object.fromEntries defines, never assigns: a key "__proto__" is a key like any other.
  if (reader.takes("{")) return Object.fromEntries(members(reader, (key) => memberOf(reader, key)));
  if (reader.takes("[")) return items(reader, () => valueOf(reader));
  if (reader.text[reader.place] === '"') return JSON.parse(reader.match(STRING));
  return JSON.parse(reader.match(ATOM));
}

function memberOf(reader: Reader, key: string): unknown {
  if (!KEPT.has(key)) return valueOf(reader);
  reader.match(SPACE);
  const start = reader.place;
  treeOf(reader);
  return new Exact(reader.text.slice(start, reader.place));
}

/** Parse an answer; what jobs carry is kept as Exact. */
export function parse(text: string): unknown {
  return valueOf(new Reader(text));
}

/** The value in one line, cut for a table. */
export function inShort(value: Exact, most = 120): string {
  return value.text.length > most ? `${value.text.slice(0, most - 1)}…` : value.text;
}

/** The value in lines, as people copy it. */
export function pretty(value: Exact): string {
  const write = (node: Tree, indent: string): string => {
    const inner = `${indent}  `;
    if (node.kind === "object") {
      if (!node.entries.length) return "{}";
      const lines = node.entries.map(([key, each]) => `${inner}${JSON.stringify(key)}: ${write(each, inner)}`);
      return `{\n${lines.join(",\n")}\n${indent}}`;
    }
    if (node.kind === "array") {
      if (!node.items.length) return "[]";
      return `[\n${node.items.map((each) => inner + write(each, inner)).join(",\n")}\n${indent}]`;
    }
    return node.text;
  };
  return write(tree(value), "");
}
