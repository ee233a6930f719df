import { useState } from "preact/hooks";
import { locked, post, Problem } from "../lib/api";
import { Anchor } from "../parts/icon";

/** Shown when the server wants to know who asks. */
export function LoginPage() {
  const [token, setToken] = useState("");
  const [said, setSaid] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("/api/login", { token });
      locked.value = false;
    } catch (error) {
      setSaid(error instanceof Problem && error.status === 401 ? "This token is not known here." : String((error as Error).message));
    }
    setBusy(false);
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void enter(event)}>
        <Anchor />
        <h1>Sign in to Holdfast</h1>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            autoComplete="current-password"
            autoFocus
            required
            aria-invalid={said !== null}
            aria-describedby={said ? "login-trouble" : undefined}
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {said && (
          <p id="login-trouble" class="error-text" role="alert">
            {said}
          </p>
        )}
        <button type="submit" class="button primary" disabled={busy || !token}>
          Sign in
        </button>
        <p class="faint">Whoever runs this server has set tokens with HOLDFAST_WEB_TOKENS or --token-file.</p>
      </form>
    </main>
  );
}
