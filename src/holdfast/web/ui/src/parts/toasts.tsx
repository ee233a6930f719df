import { dismiss, toasts } from "../lib/toasts";
import { Icon } from "./icon";

export function Toasts() {
  return (
    <section class="toasts" aria-label="Notifications" aria-live="polite">
      {toasts.value.map((each) => (
        <div class={`toast toast-${each.tone}`} key={each.id}>
          <span class="toast-text">{each.text}</span>
          {each.button && (
            <button type="button" class="button small" onClick={each.button.act}>
              {each.button.word}
            </button>
          )}
          <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            <Icon name="close" />
          </button>
          {each.part !== null && (
            <progress class="toast-progress" max={1} value={each.part} aria-label="Progress" />
          )}
        </div>
      ))}
    </section>
  );
}
