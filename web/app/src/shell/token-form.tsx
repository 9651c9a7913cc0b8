import { type FormEvent, type ReactElement, useState } from "react";
import { useStrings } from "../strings";
import { token } from "../transport/token";

/** Asks for the token after a 401. */
export function TokenForm({ onDone }: { onDone: () => void }): ReactElement {
  const t = useStrings().shell;
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
        <h1>{t.tokenTitle}</h1>
        <p>{t.tokenIntroduction}</p>
        {wrong && <p className="failure" role="alert">{t.tokenWrong}</p>}
        <label htmlFor="token">{t.token}</label>
        <input id="token" type="password" autoComplete="off" required autoFocus value={value}
          onChange={(event) => setValue(event.target.value)} />
        <button type="submit" className="primary">{t.continue}</button>
      </form>
    </main>
  );
}
