// Logins over TLS: a token, and certificates that say who their owner is; each also with what is wrong.

import { connect, tokenAuthenticator } from "@nats-io/transport-node";

const { token, mapped, ca, stranger, client, other } = JSON.parse(process.argv[2]);
const files = ({ cert, key }) => ({ certFile: cert, keyFile: key });
const logins = {
  "a token": { servers: token, token: "secret", tls: { caFile: ca } },
  "an authenticator": { servers: token, authenticator: tokenAuthenticator(() => "secret"), tls: { caFile: ca } },
  "TLS because the server asks for it": { servers: `tls://${token}`, token: "secret", tls: { caFile: ca } },
  "another token": { servers: token, token: "guess", tls: { caFile: ca } },
  "no token": { servers: token, tls: { caFile: ca } },
  "another authority": { servers: token, token: "secret", tls: { caFile: stranger } },
  "a certificate": { servers: mapped, tls: { caFile: ca, ...files(client) } },
  "a certificate of nobody": { servers: mapped, tls: { caFile: ca, ...files(other) } },
  "no certificate": { servers: mapped, tls: { caFile: ca } },
};

const results = {};
for (const [name, options] of Object.entries(logins)) {
  try {
    const made = await connect({ ...options, reconnect: false, timeout: 10_000 });
    const answers = made.subscribe("js.in", { max: 1 });
    made.publish("js.in", "hello");
    for await (const message of answers) results[name] = message.string();
    await made.close();
  } catch (error) {
    // How a handshake fails, Node tells in several ways.
    results[name] = error.name === "AuthorizationError" ? error.name : "no connection";
  }
}
console.log(JSON.stringify(results));
