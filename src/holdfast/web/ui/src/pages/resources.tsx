import { setNumber } from "../lib/acting";
import { useData } from "../lib/data";
import { term } from "../lib/query";
import { jobAt, jobsAt } from "../lib/router";
import { may } from "../lib/settings";
import type { Resource } from "../lib/types";
import { number } from "../lib/words";
import { EditableNumber } from "../parts/number";
import { Badge, Empty, For, Loading, Num, Page, Trouble } from "../parts/small";

const SHOWN = 6;

function Row({ each }: { each: Resource }) {
  const full = each.holders.length >= each.capacity;
  return (
    <tr>
      <th scope="row" class="cut id">
        <a href={jobsAt(term("key", each.key))}>{each.key}</a>
      </th>
      <td class="wide">{each.kind === "singleton" ? "Singleton key" : "Resource"}</td>
      <td>
        <Badge tone={full ? "warn" : "good"} icon={full ? "resources" : "check"}>
          {full ? "Taken" : "Free"}
        </Badge>
      </td>
      <td class="right">
        <Num value={each.holders.length} />
      </td>
      <td class="right">
        {each.kind === "resource" ? (
          <EditableNumber
            value={each.capacity}
            what={`Capacity of ${each.key}`}
            may={may("admin")}
            onSet={(value) => void setNumber("resources", each.key, value, each.capacity)}
          />
        ) : (
          <span class="num faint">1</span>
        )}
      </td>
      <td class="right">
        <Num value={each.waiting} />
      </td>
      <td class="says cut">
        {each.holders.slice(0, SHOWN).map((hold) => (
          <span key={`${hold.job_id} ${hold.since}`} class="holder">
            {hold.job_id ? <a class="tag" href={jobAt(hold.job_id)}>{hold.job_id}</a> : "?"}
            <span class="faint">
              {hold.worker_id ?? "?"}, <For from={hold.since} />
            </span>
          </span>
        ))}
        {each.holders.length > SHOWN && <span class="faint">and {number(each.holders.length - SHOWN)} more</span>}
      </td>
    </tr>
  );
}

export function ResourcesPage() {
  const data = useData<{ resources: Resource[] }>("/api/resources", { busyMs: 3000 });
  const found = data.value.value?.resources;
  return (
    <Page title="Resources" about="What jobs exclude each other on: resources with a capacity, and singleton keys. The most wanted first.">
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      {!found && !data.error.value && <Loading />}
      {found?.length === 0 && <Empty title="No resource is held or wanted." />}
      {found && found.length > 0 && (
        <div class="table-box">
          <table class="resources">
            <thead>
              <tr>
                <th>Key</th>
                <th class="wide">Kind</th>
                <th>Standing</th>
                <th class="right">Held</th>
                <th class="right">Capacity</th>
                <th class="right" title="among the latest 25,000 live jobs">Waiting</th>
                <th class="says">Holders</th>
              </tr>
            </thead>
            <tbody>
              {found.map((each) => (
                <Row key={`${each.kind} ${each.key}`} each={each} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}
