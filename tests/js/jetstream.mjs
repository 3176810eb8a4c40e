// JetStream, key-value and object store scenarios of the official JavaScript client. Prints one JSON object:
// scenario name -> result or error.
//
//   node jetstream.mjs 127.0.0.1:4222
//
// A scenario returns plain values; what they must be is asserted by the caller.

import { AckPolicy, DeliverPolicy, RetentionPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect, deadline } from "@nats-io/transport-node";

const LIMIT_MS = 10000;
const client = await connect({ servers: process.argv[2], reconnect: false });
const manager = await jetstreamManager(client);
const js = jetstream(client);

async function take(messages, count) {
  const found = [];
  for await (const message of messages) {
    found.push(message);
    if (found.length === count) break;
  }
  return found;
}

async function failure(promise) {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return [error.name, error.code ?? error.status ?? 0];
  }
}

async function filled(name, count, config = {}) {
  await manager.streams.add({ name, subjects: [`${name}.*`], ...config });
  for (let index = 0; index < count; index++) await js.publish(`${name}.${index % 3}`, String(index));
}

const scenarios = {
  async streams() {
    const info = await manager.streams.add({ name: "made", subjects: ["made.>"], max_msgs: 5 });
    const updated = await manager.streams.update("made", { max_msgs: 3 });
    for (let index = 0; index < 6; index++) await js.publish("made.x", String(index));
    const { state } = await manager.streams.info("made");
    const message = await manager.streams.getMessage("made", { last_by_subj: "made.x" });
    const erased = await manager.streams.deleteMessage("made", 5);
    const purged = await manager.streams.purge("made");
    const names = await manager.streams.names().next();
    const gone = await manager.streams.delete("made");
    return [
      info.config.max_msgs,
      updated.config.max_msgs,
      [state.messages, state.first_seq, state.last_seq],
      [message.seq, message.string()],
      erased,
      purged.purged,
      names.includes("made"),
      gone,
      await failure(manager.streams.info("made")),
    ];
  },

  async publish() {
    await manager.streams.add({ name: "pub", subjects: ["pub"] });
    const first = await js.publish("pub", "a", { msgID: "one" });
    const again = await js.publish("pub", "a", { msgID: "one" });
    const expected = await js.publish("pub", "b", { expect: { lastSequence: 1 } });
    const wrong = await failure(js.publish("pub", "c", { expect: { lastSequence: 1 } }));
    const nobody = await failure(js.publish("nobody", "c"));
    return [[first.stream, first.seq, first.duplicate], [again.seq, again.duplicate], expected.seq, wrong, nobody];
  },

  async fetch() {
    await filled("fetch", 10);
    await manager.consumers.add("fetch", { durable_name: "c", ack_policy: AckPolicy.Explicit });
    const consumer = await js.consumers.get("fetch", "c");
    const found = [];
    for await (const message of await consumer.fetch({ max_messages: 7, expires: 2000 })) {
      found.push(message.seq);
      message.ack();
    }
    for await (const message of await consumer.fetch({ max_messages: 7, expires: 1000 })) {
      found.push(message.seq);
      await message.ackAck();
    }
    const nothing = await consumer.next({ expires: 1000 });
    const info = await consumer.info();
    return [found, nothing, info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq];
  },

  async consume() {
    await filled("consume", 200);
    await manager.consumers.add("consume", { durable_name: "c", ack_policy: AckPolicy.Explicit });
    const consumer = await js.consumers.get("consume", "c");
    const messages = await consumer.consume({ max_messages: 20 });
    const found = [];
    for await (const message of messages) {
      found.push(Number(message.string()));
      message.ack();
      if (found.length === 200) break;
    }
    await messages.close();
    return found.every((value, index) => value === index);
  },

  async redelivery() {
    await filled("again", 1);
    await manager.consumers.add("again", { durable_name: "c", ack_policy: AckPolicy.Explicit, max_deliver: 3 });
    const consumer = await js.consumers.get("again", "c");
    const first = await consumer.next({ expires: 2000 });
    first.nak();
    const second = await consumer.next({ expires: 2000 });
    second.nak(100);
    const third = await consumer.next({ expires: 2000 });
    third.term("enough");
    return [first, second, third].map((message) => [message.redelivered, message.info.deliveryCount]);
  },

  async ordered() {
    await filled("ordered", 30);
    const consumer = await js.consumers.get("ordered", { filter_subjects: ["ordered.1", "ordered.2"] });
    const messages = await take(await consumer.consume(), 20);
    await manager.streams.purge("ordered", { filter: "ordered.0" });
    const late = await js.consumers.get("ordered", { deliver_policy: DeliverPolicy.Last });
    const last = await late.next({ expires: 2000 });
    return [messages.map((message) => message.seq).join(), last.seq];
  },

  async push() {
    await filled("push", 5);
    await manager.consumers.add("push", { durable_name: "c", deliver_subject: "to.push", ack_policy: AckPolicy.None });
    const consumer = await js.consumers.getPushConsumer("push", "c");
    const messages = await take(await consumer.consume(), 5);
    return messages.map((message) => message.string()).join();
  },

  async work_queue() {
    await filled("work", 4, { retention: RetentionPolicy.Workqueue });
    await manager.consumers.add("work", { durable_name: "c", ack_policy: AckPolicy.Explicit });
    const consumer = await js.consumers.get("work", "c");
    for await (const message of await consumer.fetch({ max_messages: 3, expires: 2000 })) await message.ackAck();
    return (await manager.streams.info("work")).state.messages;
  },

  async key_value() {
    const kv = await new Kvm(js).create("bucket", { history: 5 });
    const watched = [];
    const watch = await kv.watch();
    const watching = (async () => {
      for await (const entry of watch) {
        watched.push([entry.key, entry.operation, entry.revision]);
        if (watched.length === 5) break;
      }
    })();
    const revision = await kv.put("a", "1");
    await kv.update("a", "2", revision);
    const stale = await failure(kv.update("a", "3", revision));
    const taken = await failure(kv.create("a", "3"));
    await kv.create("b.c", "x");
    await kv.delete("a");
    await kv.purge("b.c");
    await watching;
    const [gone, unknown] = [await kv.get("a"), await kv.get("none")];
    const keys = [];
    await kv.put("d", "z");
    for await (const key of await kv.keys()) keys.push(key);
    const history = [];
    for await (const entry of await kv.history({ key: "a" })) history.push([entry.operation, entry.string()]);
    const status = await kv.status();
    return [watched, stale, taken, gone.operation, unknown, keys, history, status.values, await kv.destroy()];
  },

  async object_store() {
    const objects = await new Objm(js).create("things");
    const data = new Uint8Array(300_000).map((_, index) => index % 251);
    const info = await objects.put({ name: "blob", options: { max_chunk_size: 64_000 } }, new Blob([data]).stream());
    const back = await objects.getBlob("blob");
    await objects.delete("blob");
    const gone = await objects.get("blob");
    return [info.size, info.chunks, back.length === data.length && back.every((value, at) => value === data[at]), gone];
  },
};

const results = {};
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    results[name] = await deadline(scenario(), LIMIT_MS);
  } catch (error) {
    results[name] = `failed: ${error.stack}`;
  }
}
console.log(JSON.stringify(results));
process.exit(0);
