import { generateId } from "ai";
import { redirect } from "next/navigation";
import { connection } from "next/server";

export default async function NewChat() {
  await connection(); // a new id for every visit, not one at build time
  redirect(`/${generateId()}`);
}
