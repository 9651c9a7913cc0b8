import { createApp, h } from "vue";
import ChatView from "./ChatView.vue";
import { routed } from "./routed";

let app: ReturnType<typeof createApp> | undefined;

routed((root, chat) => {
  app?.unmount();
  app = createApp({ render: () => h(ChatView, { chat }) });
  app.mount(root);
});
