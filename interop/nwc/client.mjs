// An application with the unmodified NWCClient: it makes the calls that come
// on stdin, one JSON array [id, method, argument] a line, and writes
// {id, result} or {id, error}; notifications as {notification}.
import { createInterface } from "node:readline";
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // Node.js has one from version 22
console.log = console.warn = console.error; // stdout is for answers
const { NWCClient } = await import("@getalby/sdk/nwc");

const write = (v) => process.stdout.write(JSON.stringify(v) + "\n");
const client = new NWCClient({ nostrWalletConnectUrl: process.env.NWC_URL });
if (process.env.NWC_NIP04) {
  // A wallet of the first days: the client does not ask for better.
  client._encryptionType = "nip04";
}
await client.subscribeNotifications((notification) => write({ notification }));

for await (const line of createInterface({ input: process.stdin })) {
  const [id, method, argument] = JSON.parse(line);
  client[method](argument).then(
    (result) => write({ id, result }),
    (e) => write({ id, error: { code: e.code ?? "", message: String(e.message) } }),
  );
}
client.close();
process.exit(0);
