import { mount, unmount } from "svelte";
import ChatView from "./ChatView.svelte";
import { routed } from "./routed";

let view: ReturnType<typeof mount> | undefined;

routed((target, chat) => {
  if (view) void unmount(view);
  view = mount(ChatView, { target, props: { chat } });
});
