import { type ReactElement, useState } from "react";
import { language, useStrings } from "../strings";
import { request } from "../transport/request";

/** A standing answer, as `GET /api/grants` has it. */
interface Grant {
  id: number;
  tool: string;
  scope: "chat" | "always";
  sameArguments: boolean;
  chatTitle?: string;
  input?: unknown;
  at?: string;
}

interface GrantPage {
  grants: Grant[];
  next?: number | string;
}

async function loadGrants(before?: number | string): Promise<GrantPage> {
  const response = await request(before === undefined ? "grants" : `grants?before=${encodeURIComponent(before)}`);
  return (await response.json()) as GrantPage;
}

/** Take a standing answer back. One that is gone already was taken back in another window. */
async function takeBack({ id }: Grant): Promise<void> {
  await request(`grants/${encodeURIComponent(id)}`, { method: "DELETE", accept: 404 });
}

function GrantRow({ grant, onTakeBack }: { grant: Grant; onTakeBack: () => void }): ReactElement {
  const t = useStrings().settings;
  const { tool, scope, sameArguments, chatTitle, input, at } = grant;
  const since = at && new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(at));
  return (
    <li className="grant">
      <div>
        <code>{tool}</code>
        <p dir="auto">{scope === "always" ? t.inAllChats : t.inChat(chatTitle || t.untitledChat)}</p>
        {sameArguments && <p>{input === undefined ? t.withTheseArguments : <code>{JSON.stringify(input)}</code>}</p>}
        {since && <p>{t.since(since)}</p>}
      </div>
      <button type="button" aria-label={t.takeBackOf(tool)} onClick={onTakeBack}>{t.takeBack}</button>
    </li>
  );
}

/** The section about approvals that cover later calls, too. They are loaded when a person wants to see them. */
export function StandingAnswers(): ReactElement {
  const t = useStrings().settings;
  const [page, setPage] = useState<GrantPage | null>(null);
  const [failed, setFailed] = useState(false);
  const run = (work: Promise<void>): void => {
    setFailed(false);
    work.catch(() => setFailed(true));
  };
  const show = async (): Promise<void> => setPage(await loadGrants());
  const more = async (): Promise<void> => {
    const next = await loadGrants(page?.next);
    setPage({ ...next, grants: [...(page?.grants ?? []), ...next.grants] });
  };
  const remove = async (grant: Grant): Promise<void> => {
    await takeBack(grant);
    setPage((before) => before && { ...before, grants: before.grants.filter(({ id }) => id !== grant.id) });
  };
  return (
    <>
      <p className="about">{t.aboutStandingAnswers}</p>
      {page === null && <button type="button" className="show" onClick={() => run(show())}>{t.showStandingAnswers}</button>}
      <div role="status" className="about">{page?.grants.length === 0 && t.noStandingAnswers}</div>
      {page && page.grants.length > 0 && (
        <ul className="grants" aria-label={t.standingAnswers}>
          {page.grants.map((grant) => <GrantRow key={grant.id} grant={grant} onTakeBack={() => run(remove(grant))} />)}
        </ul>
      )}
      {page?.next !== undefined && <button type="button" className="show" onClick={() => run(more())}>{t.moreStandingAnswers}</button>}
      {failed && <p className="failure" role="alert">{t.standingAnswersFailed}</p>}
    </>
  );
}
