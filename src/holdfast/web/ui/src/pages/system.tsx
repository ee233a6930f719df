import { useData } from "../lib/data";
import type { Tone } from "../lib/states";
import type { Finding } from "../lib/types";
import { Badge, Copy, Loading, Page, Trouble } from "../parts/small";

const LOOKS: Record<Finding["level"], { tone: Tone; icon: string; word: string }> = {
  PROBLEM: { tone: "bad", icon: "cross", word: "Problem" },
  NOTE: { tone: "warn", icon: "alert", word: "Note" },
  OK: { tone: "good", icon: "check", word: "OK" },
};

const ORDER: Finding["level"][] = ["PROBLEM", "NOTE", "OK"];

function summary(found: Finding[]): string {
  const problems = found.filter((each) => each.level === "PROBLEM").length;
  if (!problems) return "Nothing needs doing.";
  return problems === 1 ? "One thing needs doing." : `${problems} things need doing.`;
}

export function SystemPage() {
  const data = useData<{ findings: Finding[] }>("/api/doctor", { busyMs: 20_000, restMs: 30_000 });
  const found = data.value.value?.findings;
  const sorted = found && [...found].sort((one, other) => ORDER.indexOf(one.level) - ORDER.indexOf(other.level));
  return (
    <Page
      title="System"
      about={found ? summary(found) : "What the doctor says about the database, the installation and its jobs."}
      actions={
        <button type="button" class="button" onClick={() => void data.refresh()}>
          Look again
        </button>
      }
    >
      <Trouble problem={data.error.value} again={() => void data.refresh()} />
      {!found && !data.error.value && <Loading rows={8} />}
      {sorted && (
        <ul class="findings card">
          {sorted.map((each, place) => (
            <li key={place}>
              <Badge tone={LOOKS[each.level].tone} icon={LOOKS[each.level].icon}>
                {LOOKS[each.level].word}
              </Badge>
              <span class="check-name">{each.check}</span>
              <span class="grow">
                {each.says}
                {each.fix && (
                  <span class="fix">
                    → {each.fix} <Copy text={each.fix} what="what to do" />
                  </span>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Page>
  );
}
