// pg-boss with large batches: one call of the handler for a whole batch.
import { chunks, DSN, main, require, SETTINGS } from "./common.mjs";

const { PgBoss } = require("pg-boss");

const boss = new PgBoss({ connectionString: DSN, useListenNotify: SETTINGS.notify, max: SETTINGS.max });
boss.on("error", (error) => console.error(error));

main({
  async setup() {
    await boss.start();
    await boss.createQueue("default", { partition: SETTINGS.partition, notify: SETTINGS.notify });
  },
  async open() {
    await boss.start();
  },
  async bulk(first, jobs) {
    for (const numbers of chunks(first, jobs, SETTINGS.bulk_batch)) {
      await boss.insert("default", numbers.map((number) => ({ data: { number } })));
    }
  },
  async one(number) {
    await boss.send("default", { number });
  },
  async close() {
    await boss.stop({ graceful: false });
  },
  async work(record) {
    await boss.start();
    const options = {
      batchSize: SETTINGS.batchSize,
      pollingIntervalSeconds: SETTINGS.pollingIntervalSeconds,
      burstWhenBatchFull: SETTINGS.burstWhenBatchFull,
      localConcurrency: SETTINGS.localConcurrency,
    };
    await boss.work("default", options, async (jobs) => {
      for (const job of jobs) record(job.data.number);
    });
  },
});
