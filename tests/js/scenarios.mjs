// Core scenarios of the official JavaScript client. Prints one JSON object: scenario name -> result or error.
//
//   node scenarios.mjs '{"open": "127.0.0.1:4222", "guarded": "127.0.0.1:4223",
//                         "websocket": "ws://127.0.0.1:8080", "seed": "SU..."}'
//
// A scenario returns plain values; what they must be is asserted by the caller.

import { wsconnect } from "@nats-io/nats-core";
import { connect, deadline, headers, nkeyAuthenticator } from "@nats-io/transport-node";
import { WebSocket } from "ws";

// Node has a WebSocket of its own only from version 22 on.
globalThis.WebSocket ??= WebSocket;

const targets = JSON.parse(process.argv[2]);
const LIMIT_MS = 5000;

const open = (options = {}) => connect({ servers: targets.open, reconnect: false, ...options });
const guarded = (options = {}) => connect({ servers: targets.guarded, reconnect: false, ...options });

async function take(subscription, count) {
  const messages = [];
  for await (const message of subscription) {
    messages.push(message);
    if (messages.length === count) break;
  }
  return messages;
}

async function failure(promise) {
  try {
    await promise;
    return "no error";
  } catch (error) {
    return error.name;
  }
}

const scenarios = {
  async publish_and_subscribe() {
    const client = await open();
    const subscription = client.subscribe("js.one");
    client.publish("js.one", "hello", { reply: "js.reply" });
    const [message] = await take(subscription, 1);
    await client.close();
    return [message.subject, message.string(), message.reply, message.sid > 0];
  },

  async thousand_messages_in_order() {
    const [reader, writer] = [await open(), await open()];
    const subscription = reader.subscribe("js.order.*");
    await reader.flush();
    for (let index = 0; index < 1000; index++) writer.publish(`js.order.${index % 3}`, String(index));
    const messages = await take(subscription, 1000);
    await Promise.all([reader.close(), writer.close()]);
    return messages.every((message, index) => message.string() === String(index));
  },

  async wildcards() {
    const client = await open();
    const patterns = ["js.w.a.b", "js.w.*.b", "js.w.>", "js.*.a.*"];
    const found = Object.fromEntries(patterns.map((pattern) => [pattern, []]));
    for (const pattern of patterns) {
      client.subscribe(pattern, { callback: (_, message) => found[pattern].push(message.subject) });
    }
    for (const subject of ["js.w.a.b", "js.w.x.b", "js.w.a", "js.z.a.q"]) client.publish(subject);
    await client.flush();
    await client.close();
    return found;
  },

  async queue() {
    const clients = [await open(), await open(), await open()];
    const counts = clients.map(() => 0);
    clients.forEach((client, index) => {
      client.subscribe("js.q", { queue: "workers", callback: () => counts[index]++ });
    });
    for (const client of clients) await client.flush();
    for (let index = 0; index < 300; index++) clients[0].publish("js.q");
    for (const client of clients) await client.flush();
    for (const client of clients) await client.flush();
    for (const client of clients) await client.close();
    return [counts.reduce((a, b) => a + b, 0), counts.every((count) => count > 30)];
  },

  async request() {
    const [service, client] = [await open(), await open()];
    service.subscribe("js.ask", { callback: (_, message) => message.respond(`got ${message.string()}`) });
    await service.flush();
    const shared = await client.request("js.ask", "a", { timeout: LIMIT_MS });
    const single = await client.request("js.ask", "b", { timeout: LIMIT_MS, noMux: true });
    const many = [];
    for await (const message of await client.requestMany("js.ask", "c", { maxMessages: 1 })) many.push(message.string());
    await Promise.all([service.close(), client.close()]);
    return [shared.string(), single.string(), many];
  },

  async no_responders() {
    const client = await open();
    const result = [
      await failure(client.request("js.nobody", "", { timeout: LIMIT_MS })),
      await failure(client.request("js.nobody", "", { timeout: LIMIT_MS, noMux: true })),
    ];
    client.subscribe("js.silent", { callback: () => {} });
    result.push(await failure(client.request("js.silent", "", { timeout: 50 })));
    await client.close();
    return result;
  },

  async headers() {
    const client = await open();
    const subscription = client.subscribe("js.head");
    const sent = headers();
    sent.append("A", "one");
    sent.append("A", "two");
    sent.set("Colour", "blue: green");
    client.publish("js.head", "body", { headers: sent });
    const [message] = await take(subscription, 1);
    await client.close();
    return [message.string(), message.headers.values("A"), message.headers.get("Colour")];
  },

  async unsubscribe_after_max() {
    const client = await open();
    let count = 0;
    const subscription = client.subscribe("js.max", { max: 3, callback: () => count++ });
    for (let index = 0; index < 10; index++) client.publish("js.max");
    await client.flush();
    const result = [count, subscription.isClosed()];
    await client.close();
    return result;
  },

  async drain_subscription() {
    const [reader, writer] = [await open(), await open()];
    let count = 0;
    const subscription = reader.subscribe("js.drain", { callback: () => count++ });
    await reader.flush();
    for (let index = 0; index < 100; index++) writer.publish("js.drain");
    await writer.flush();
    await subscription.drain();
    writer.publish("js.drain");
    await writer.flush();
    await reader.flush();
    await Promise.all([reader.close(), writer.close()]);
    return count;
  },

  async drain_connection() {
    const client = await open();
    let count = 0;
    client.subscribe("js.drain.all", { callback: () => count++ });
    for (let index = 0; index < 100; index++) client.publish("js.drain.all");
    await client.drain();
    return [count, client.isClosed()];
  },

  async no_echo() {
    const [quiet, other] = [await open({ noEcho: true }), await open()];
    let own = 0;
    quiet.subscribe("js.echo", { callback: () => own++ });
    const others = other.subscribe("js.echo");
    await Promise.all([quiet.flush(), other.flush()]);
    quiet.publish("js.echo", "x");
    await quiet.flush();
    await take(others, 1);
    await quiet.flush();
    await Promise.all([quiet.close(), other.close()]);
    return own;
  },

  async binary_and_large_payloads() {
    const client = await open();
    const payload = new Uint8Array(1024 * 1024).map((_, index) => index % 256);
    const subscription = client.subscribe("js.large");
    client.publish("js.large", payload);
    client.publish("js.large");
    const [large, empty] = await take(subscription, 2);
    await client.close();
    return [Buffer.compare(large.data, payload) === 0, empty.data.length];
  },

  async verbose_and_pedantic() {
    const client = await open({ verbose: true, pedantic: true });
    const subscription = client.subscribe("js.verbose");
    client.publish("js.verbose", "x");
    const [message] = await take(subscription, 1);
    await client.close();
    return message.string();
  },

  async server_facts() {
    const client = await open({ name: "facts" });
    const info = client.info;
    const rtt = await client.rtt();
    await client.close();
    return [info.proto, info.headers, info.max_payload, info.client_id > 0, info.version.startsWith("2."), rtt >= 0];
  },

  async websocket() {
    const client = await wsconnect({ servers: targets.websocket, reconnect: false });
    client.subscribe("js.ws.echo", { callback: (_, message) => message.respond(message.data) });
    const payload = new Uint8Array(300000).map((_, index) => index % 251);
    const small = await client.request("js.ws.echo", "small", { timeout: LIMIT_MS });
    const large = await client.request("js.ws.echo", payload, { timeout: LIMIT_MS });
    const absent = await failure(client.request("js.ws.nobody", "", { timeout: LIMIT_MS }));
    await client.drain();
    return [small.string(), Buffer.compare(large.data, payload) === 0, absent];
  },

  async websocket_and_socket_meet() {
    const [web, plain] = [await wsconnect({ servers: targets.websocket, reconnect: false }), await open()];
    const subscription = web.subscribe("js.meet");
    await web.flush();
    const sent = headers();
    sent.set("A", "b");
    plain.publish("js.meet", "hello", { headers: sent });
    const [message] = await take(subscription, 1);
    await Promise.all([web.close(), plain.close()]);
    return [message.string(), message.headers.get("A")];
  },

  async logins() {
    const good = [
      { user: "ann", pass: "open" },
      { authenticator: nkeyAuthenticator(new TextEncoder().encode(targets.seed)) },
    ];
    const bad = [{ user: "ann", pass: "no" }, { user: "eve", pass: "open" }, {}];
    const result = [];
    for (const options of good) {
      const client = await guarded(options);
      await client.flush();
      await client.close();
      result.push("in");
    }
    for (const options of bad) result.push(await failure(guarded(options)));
    return result;
  },

  async permission_errors() {
    const client = await guarded({ user: "tight", pass: "p" });
    const errors = [];
    const told = (async () => {
      for await (const status of client.status()) {
        if (status.type === "error") errors.push(`${status.error.name}: ${status.error.message}`);
        if (errors.length === 2) break;
      }
    })();
    client.subscribe("js.secret", { callback: () => {} });
    await client.flush();
    client.publish("js.secret", "x");
    await client.flush();
    await told;
    await client.close();
    return errors.sort();
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
