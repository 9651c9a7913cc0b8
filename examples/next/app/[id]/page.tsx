import Link from "next/link";
import { ChatView } from "../chat-view";
import { loadHistory } from "../history";

/** A server component: the history comes with the page. */
export default async function ChatPage({ params }: { params: Promise<{ id: string }> }) {
  const { id } = await params;
  const history = await loadHistory(id, process.env.ADKWIRE_URL ?? "http://127.0.0.1:8000");
  return (
    <>
      <Link href="/" prefetch={false}>New chat</Link>
      <ChatView key={id} id={id} history={history} />
    </>
  );
}
