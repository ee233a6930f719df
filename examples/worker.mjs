// A worker over HTTP, on Node 18 or newer and nothing else:
//   HOLDFAST_URL=http://127.0.0.1:8420 HOLDFAST_TOKEN=… node worker.mjs
import { setTimeout as sleep } from "node:timers/promises";

const { HOLDFAST_URL: url, HOLDFAST_TOKEN: token = "", LEASE: lease = "30" } = process.env;
const asked = { assignee: `node-${process.pid}`, capacity: 4, lease: Number(lease), ack: true };
const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
const held = new Map(); // by lease: what names a job to the server, and how to stop it

async function handle(job, stop) { // your work: return a result or throw; heed the signal
  console.log("run", job.job_id);
  await sleep(job.payload.seconds * 1000, null, { signal: stop });
  return { slept: job.payload.seconds };
}

async function post(path, body = {}, signal = AbortSignal.timeout(30_000)) {
  const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

async function work(job, name, stop) {
  const outcome = await handle(job, stop).then(
    (result) => ({ outcome: "complete", result }),
    (error) => stop.aborted ? { outcome: "acknowledge_cancellation" }
      : { outcome: "fail", error: String(error), delay: 10 });
  for (let times = 0; times < 60; times++) { // until the server answers: what is said twice counts once
    try { await post("/api/jobs/settle", { results: [{ ...name, ...outcome }] }); break; }
    catch (error) { console.error(error.message); await sleep(1000); }
  }
  held.delete(job.lease_id);
}

async function hear(line, path) {
  if (line.type === "job") {
    const { job_id, lease_id } = line.job, name = { job_id, lease_id }, stop = new AbortController();
    const { verdicts: [{ ok }] } = await (await post(`${path}/ack`, { jobs: [name] })).json();
    if (!ok) return; // it did not reach us in time: somebody else gets it
    held.set(lease_id, { name, stop });
    work(line.job, name, stop.signal);
  } else if (line.type === "ping") await post(`${path}/beat`);
  else for (const { name, stop } of held.values()) if (name.job_id === line.job_id) stop.abort(); // cancel, lost
}

while (true) {
  try {
    const dead = new AbortController(), holding = [...held.values()].map(({ name }) => name);
    const answer = await post("/api/streams", { ...asked, holding }, dead.signal);
    let text = "", path, watch;
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      clearTimeout(watch);
      watch = setTimeout(() => dead.abort(), 30_000); // a server that lives says something more often
      const lines = (text + chunk).split("\n");
      text = lines.pop();
      for (const line of lines.map((each) => JSON.parse(each)))
        if (line.type === "open") path = `/api/streams/${line.stream}`; else await hear(line, path);
    }
  } catch (error) { console.error(error.message); }
  await sleep(1000);
}
