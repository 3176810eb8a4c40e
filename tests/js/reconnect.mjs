// Loses its server and finds it again. Says `connected`, waits for the server to go and come back, then prints what
// arrived on a subscription made before. The caller stops and starts the server.

import { connect } from "@nats-io/transport-node";

const client = await connect({
  servers: process.argv[2],
  reconnectTimeWait: 50,
  maxReconnectAttempts: -1,
});
const subscription = client.subscribe("js.back", { max: 1 });
await client.flush();
console.log("connected");

for await (const status of client.status()) {
  if (status.type === "disconnect") console.log("disconnect");
  if (status.type === "reconnect") break;
}
client.publish("js.back", "again");
for await (const message of subscription) console.log(`received ${message.string()}`);
await client.close();
