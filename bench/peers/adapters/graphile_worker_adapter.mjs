// graphile-worker with its local queue and batched completions.
import { chunks, DSN, main, require, SETTINGS } from "./common.mjs";

const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const quiet = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(message);
});

let utils;

main({
  async setup() {
    utils = await makeWorkerUtils({ connectionString: DSN, logger: quiet });
    await utils.migrate();
  },
  async open() {
    utils = await makeWorkerUtils({ connectionString: DSN, logger: quiet });
  },
  // One call of the SQL function add_jobs with a JSON list, as its performance test does: jobs stay on the server.
  async bulk(first, jobs) {
    for (const numbers of chunks(first, jobs, SETTINGS.bulk_batch)) {
      const specs = numbers.map((number) => ({ identifier: "noop", payload: { number } }));
      await utils.withPgClient((client) =>
        client.query(
          `select 1 from graphile_worker.add_jobs(array(
             select json_populate_recordset(null::graphile_worker.job_spec, $1::json))) limit 1`,
          [JSON.stringify(specs)],
        ),
      );
    }
  },
  async one(number) {
    await utils.addJob("noop", { number });
  },
  async close() {
    await utils.release();
  },
  async work(record) {
    const runner = await run({
      preset: {
        worker: {
          connectionString: DSN,
          logger: quiet,
          concurrentJobs: SETTINGS.concurrentJobs,
          maxPoolSize: SETTINGS.maxPoolSize,
          localQueue: { size: SETTINGS.localQueueSize },
          completeJobBatchDelay: SETTINGS.completeJobBatchDelay,
          failJobBatchDelay: SETTINGS.completeJobBatchDelay,
        },
      },
      taskList: { noop: (payload) => void record(payload.number) },
    });
    await runner.promise;
  },
});
