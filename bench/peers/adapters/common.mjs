// What the Node adapters share; the protocol is the one of common.py.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

export const require = createRequire(path.join(process.env.PEERS_HOME, "package.json"));
export const DSN = process.env.PEERS_DSN;
export const SETTINGS = JSON.parse(process.env.PEERS_SETTINGS || "{}");
const STAMPED = process.env.PEERS_STAMPED === "1";

const PAUSES_MS = [20, 50];
const FLUSH_MS = 10;

const padded = (value, digits) => String(value).padStart(digits, "0");

// Handlers keep what they saw in memory; it is written every 10 ms.
export function recorder() {
  let pending = [];
  const file = fs.openSync(path.join(process.env.PEERS_SEEN, `${process.pid}.seen`), "a");
  setInterval(() => {
    if (pending.length === 0) return;
    const lines = pending.map((one) =>
      STAMPED ? `${padded(one[0], 9)} ${padded(one[1], 19)}\n` : `${padded(one, 9)}\n`,
    );
    pending = [];
    fs.writeSync(file, lines.join(""));
  }, FLUSH_MS);
  return STAMPED
    ? (number) => pending.push([number, process.hrtime.bigint()])
    : (number) => pending.push(number);
}

export function* chunks(first, jobs, size) {
  for (let start = first; start < first + jobs; start += size) {
    const length = Math.min(size, first + jobs - start);
    yield Array.from({ length }, (_, index) => start + index);
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function spaced(adapter, first, jobs) {
  const stamps = [];
  for (let number = first; number < first + jobs; number++) {
    stamps.push(Number(process.hrtime.bigint()));
    await adapter.one(number);
    await sleep(PAUSES_MS[0] + Math.random() * (PAUSES_MS[1] - PAUSES_MS[0]));
  }
  return stamps;
}

export async function main(adapter) {
  const [verb, ...rest] = process.argv.slice(2);
  const [first, jobs] = rest.map(Number);
  if (verb === "setup") {
    await adapter.setup();
    process.exit(0);
  }
  if (verb === "work") return adapter.work(recorder());
  await adapter.open();
  const began = process.hrtime.bigint();
  let stamps = [];
  if (verb === "bulk") await adapter.bulk(first, jobs);
  if (verb === "single") for (let number = first; number < first + jobs; number++) await adapter.one(number);
  if (verb === "spaced") stamps = await spaced(adapter, first, jobs);
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  await adapter.close();
  console.log(JSON.stringify({ jobs, seconds, stamps }));
  process.exit(0);
}
