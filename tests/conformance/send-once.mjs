import { WebSocket } from "ws";

/** One message on a socket of its own, without a client: what came for it, as `Scene.post` tells it of HTTP. */
export function sendOnce(base, { id, trigger, messageId, messages }, path = "/api/chat/ws") {
  const socket = new WebSocket(`${base.replace(/^http/, "ws")}${path}`);
  const frame = { type: "send", requestId: "once", id, trigger, messageId, messages, headers: {}, body: {} };
  const chunks = [];
  const ends = {
    end: () => ({ status: 200, chunks, done: true }),
    error: ({ errorText }) => ({ status: "error", chunks, text: errorText }),
  };
  return new Promise((resolve, reject) => {
    socket.on("open", () => socket.send(JSON.stringify(frame)));
    socket.on("error", reject);
    socket.on("close", (code) => reject(new Error(`closed with ${code}`)));
    socket.on("message", (data) => {
      const answer = JSON.parse(String(data));
      if (answer.type === "chunk") chunks.push(answer.chunk);
      if (answer.type in ends) {
        resolve(ends[answer.type](answer));
        socket.close();
      }
    });
  });
}
