import { letters } from "../lib/settings";
import { Dialog } from "./dialog";

const KEYS: [string, string[], string][] = [
  ["Anywhere", ["Ctrl K"], "find a job, a queue or a page"],
  ["Anywhere", ["g o", "g j", "g d", "g q", "g w", "g k", "g s"], "overview, jobs, dead letters, queues, workers, resources, system"],
  ["Anywhere", ["p"], "pause updates, or go on"],
  ["Anywhere", ["t"], "colours: system, light, dark"],
  ["Anywhere", ["?"], "this help"],
  ["Jobs", ["/"], "write a query"],
  ["Jobs", ["j", "k"], "down, up"],
  ["Jobs", ["x"], "pick the job; Shift X: all on the page"],
  ["Jobs", ["Enter"], "open the job"],
  ["Jobs", ["n"], "show what is new"],
  ["Jobs and job", ["r"], "retry dead jobs"],
  ["Jobs and job", ["c"], "cancel"],
  ["Jobs and job", ["#"], "delete"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <table class="help">
        <tbody>
          {KEYS.map(([where, keys, what]) => (
            <tr key={what}>
              <td class="faint nowrap">{where}</td>
              <td>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="check">
        <input
          type="checkbox"
          checked={letters.value === "on"}
          onChange={(event) => (letters.value = event.currentTarget.checked ? "on" : "off")}
        />
        Single letters are shortcuts
      </label>
    </Dialog>
  );
}
