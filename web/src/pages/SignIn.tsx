import { useEffect, useState } from "preact/hooks";
import { exchangeCode, key, signIn, signInReason } from "../api/session";
import icon from "../icon.svg";
import { ErrorNote, Loading } from "../parts/Notes";
import { replaceAddress, route } from "../router";

/** Ask for a key. With a code, as `forum up --open` gives one, nothing has to be typed. */
export function SignIn({ code = "" }: { code?: string | undefined }) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(Boolean(code));

  async function attempt(work: Promise<void>) {
    setBusy(true);
    setError(null);
    try {
      await work;
      if (route.value.page === "sign-in") replaceAddress("#/");
    } catch (failure) {
      // An address that was used before leads on if another tab is signed in.
      if (code && key.value) return replaceAddress("#/");
      setError(failure as Error);
      setBusy(false);
    }
  }

  useEffect(() => {
    if (!code) return;
    // The code leaves the address, and thereby the history, before it is used.
    replaceAddress("#/sign-in");
    void attempt(exchangeCode(code));
  }, [code]);

  if (busy && code) return <Loading what="your session" />;
  return (
    <main class="sign-in card">
      <p class="brand">
        <img src={icon} alt="" />
        Forum
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const entered = new FormData(event.currentTarget).get("key");
          void attempt(signIn(String(entered)));
        }}
      >
        <h1>Sign in with a key</h1>
        {signInReason.value && <p class="note wait">{signInReason.value}</p>}
        {error && <ErrorNote error={error} />}
        <label>
          Key
          <input type="password" name="key" required autocomplete="off" spellcheck={false} />
        </label>
        <p class="small quiet">
          On the machine of the server, in the folder of the project, <code>forum token</code>{" "}
          prints yours. Elsewhere, the operator makes you one:{" "}
          <code>forum keys create --name ann --scope read --scope approve</code>. The key is
          forgotten when you close the last tab of this page.
        </p>
        <button type="submit" class="primary" disabled={busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
