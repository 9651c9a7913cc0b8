import { type FormEvent, type ReactElement, useState } from "react";
import { token } from "../transport/token";

/** Asks for the token when the server wants to know who we are, or did not take the one we had. */
export function TokenForm({ onDone }: { onDone: () => void }): ReactElement {
  const [wrong] = useState(() => token.read() !== null);
  const [value, setValue] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    token.write(value.trim());
    onDone();
  };
  return (
    <main className="center">
      <form className="token-form" onSubmit={submit}>
        <h1>Who are you?</h1>
        <p>This server needs a token. Its operator set it and can tell you. It is kept in this tab only.</p>
        {wrong && <p className="failure" role="alert">That token was wrong. Check it and try again.</p>}
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="off" required autoFocus value={value}
          onChange={(event) => setValue(event.target.value)} />
        <button type="submit" className="primary">Continue</button>
      </form>
    </main>
  );
}
