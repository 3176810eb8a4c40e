// Logins of operator mode: credentials, token and seed, a bearer's token; over a socket and a WebSocket.

import { wsconnect } from "@nats-io/nats-core";
import { connect, credsAuthenticator, jwtAuthenticator } from "@nats-io/transport-node";
import { WebSocket } from "ws";

// Node has a WebSocket of its own only from version 22 on.
globalThis.WebSocket ??= WebSocket;

const targets = JSON.parse(process.argv[2]);
const bytes = (text) => new TextEncoder().encode(text);
const creds = (jwt, seed) =>
  bytes(
    `-----BEGIN NATS USER JWT-----\n${jwt}\n------END NATS USER JWT------\n\n` +
      `-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
  );
const { user, bearer, seed, stranger } = targets;
const logins = {
  creds: credsAuthenticator(creds(user, seed)),
  "token and seed": jwtAuthenticator(user, bytes(seed)),
  bearer: jwtAuthenticator(bearer),
  "token of another": credsAuthenticator(creds(user, stranger)),
  "no proof": jwtAuthenticator(user),
};

const results = {};
for (const [way, dial, servers] of [["tcp", connect, targets.tcp], ["websocket", wsconnect, targets.websocket]]) {
  results[way] = [];
  for (const authenticator of Object.values(logins)) {
    try {
      const client = await dial({ servers, authenticator, reconnect: false });
      const answers = client.subscribe("js.in", { max: 1 });
      client.publish("js.in", "hello");
      for await (const message of answers) results[way].push(message.string());
      await client.close();
    } catch (error) {
      results[way].push(error.name);
    }
  }
}
console.log(JSON.stringify(results));
