// Many servers as the official JavaScript client sees them. The first argument is a server of a cluster of two; the
// second a leaf whose hub has JetStream in the domain `hub`. Says `heard` when the cluster's other server was told of,
// and waits for the first one to go. Then prints one JSON object: what crossed, and what the domain answered.

import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect, deadline } from "@nats-io/transport-node";

const [cluster, leaf] = process.argv.slice(2);
const client = await connect({ servers: cluster, reconnectTimeWait: 50, maxReconnectAttempts: -1 });
const first = client.info.server_name;
const urls = new Set(client.info.connect_urls ?? []);
const events = client.status();
while (urls.size < 2) {
  const { value } = await deadline(events.next(), 10000);
  for (const url of value.added ?? []) urls.add(url);
}
const subscription = client.subscribe("js.moved", { max: 1 });
await client.flush();
console.log("heard");
for await (const status of client.status()) {
  if (status.type === "reconnect") break;
}
client.publish("js.moved", "here");
let moved = "";
for await (const message of subscription) moved = message.string();
const found = { cluster: [urls.size, client.info.server_name !== first, moved] };
await client.close();

const edge = await connect({ servers: leaf, reconnect: false });
const options = { domain: "hub" };
const manager = await jetstreamManager(edge, options);
await manager.streams.add({ name: "FAR", subjects: ["far.>"] });
const js = jetstream(edge, options);
const acks = [];
for (let i = 0; i < 3; i++) acks.push((await js.publish(`far.${i}`, `${i}`)).seq);
await manager.consumers.add("FAR", { durable_name: "d", ack_policy: "explicit" });
const consumer = await js.consumers.get("FAR", "d");
const read = [];
for await (const message of await consumer.fetch({ max_messages: 3, expires: 5000 })) {
  read.push(message.string());
  message.ack();
}
const bucket = await new Kvm(js).create("KEYS");
await bucket.put("k", "v");
found.domain = [(await manager.getAccountInfo()).domain, acks, read, (await bucket.get("k")).string()];
await edge.close();
console.log(JSON.stringify(found));
