// A NATS client for one page: the protocol over a WebSocket, requests, subscriptions, and coming back after a loss.
//
//     opening ──INFO──► asking (for credentials) ──► connecting ──PONG──► open ──lost──► waiting ──► connecting ...
//                                                        └──refused──► asking
//
// Credentials are kept here, in memory, and leave in CONNECT alone.

import { readCredentials, sign } from "./nkeys.js";

const REQUEST_MS = 5000;
const WAIT_MIN_MS = 250;
const WAIT_MAX_MS = 4000;
const CRLF = [13, 10];
const coder = new TextEncoder();
const decoder = new TextDecoder();

export class RequestFailed extends Error {
  /** `kind`: denied, nobody, late, lost. */
  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}

/** A message; `headers` are pairs of name and value. */
export class Msg {
  constructor(subject, reply, headers, data) {
    this.subject = subject;
    this.reply = reply;
    this.headers = headers ? headers.pairs : [];
    this.status = headers ? headers.status : "";
    this.words = headers ? headers.words : "";
    this.data = data;
  }

  header(name) {
    const found = this.headers.find(([key]) => key.toLowerCase() === name.toLowerCase());
    return found ? found[1] : "";
  }

  text() {
    return decoder.decode(this.data);
  }

  json() {
    return JSON.parse(this.text());
  }
}

export class Nats {
  /** `changed` is called with every change of `state`; `failed` with what the server complains about. */
  constructor(url, { changed, failed }) {
    this.url = url;
    this.state = "opening";
    this.info = {};
    this.reason = ""; // why it is not open
    this.reconnects = 0;
    this.sent = 0;
    this._changed = changed;
    this._failed = failed;
    this._login = null; // what CONNECT says, once known
    this._subscriptions = new Map();
    this._nextSid = 1;
    this._requests = new Map(); // by the last part of their inbox
    this._pongs = [];
    this._inbox = "";
    this._nextRequest = 1;
    this._wait = WAIT_MIN_MS;
    this._timer = 0;
  }

  /** Open the socket. The server says first whether it wants to know who is there. */
  open() {
    clearTimeout(this._timer);
    this._buffer = new Uint8Array(0);
    const socket = (this._socket = new WebSocket(this.url));
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => socket === this._socket && this._received(new Uint8Array(event.data));
    socket.onclose = () => socket === this._socket && this._lost();
  }

  /** Say who is there: `{user, pass}`, `{token}`, `{credentials}` (the text of a file) or `{}`; `inbox` as a prefix. */
  login(given) {
    this._login = given;
    this._inbox = `${given.inbox || "_INBOX"}.${random()}`;
    if (this._socket.readyState === WebSocket.OPEN && this.info.server_id) this._connect();
    else this.open();
  }

  logout() {
    this._login = null;
    this._subscriptions.clear();
    this._become("opening", "");
    const socket = this._socket;
    this._socket = null;
    socket.close();
    this._fail("lost", "logged out");
    this.open();
  }

  /** Try again now instead of later. */
  retry() {
    if (this.state === "waiting") this.open();
  }

  publish(subject, data = "", { reply = "", headers = null } = {}) {
    const body = typeof data === "string" ? coder.encode(data) : data;
    const names = reply ? `${subject} ${reply}` : subject;
    if (headers && headers.length) {
      const block = coder.encode(`NATS/1.0\r\n${headers.map(([key, value]) => `${key}: ${value}\r\n`).join("")}\r\n`);
      this._send(`HPUB ${names} ${block.length} ${block.length + body.length}\r\n`, block, body, CRLF);
    } else {
      this._send(`PUB ${names} ${body.length}\r\n`, body, CRLF);
    }
  }

  /** Ask one. Rejects with RequestFailed when nobody may, does or can answer. */
  request(subject, data = "", { headers = null, timeout = REQUEST_MS } = {}) {
    return new Promise((resolve, reject) => {
      const part = this._ask(subject, data, headers, timeout, (msg) => {
        this._done(part);
        if (msg.status === "503") reject(new RequestFailed("nobody", `nobody answers on ${subject}`));
        else resolve(msg);
      }, reject);
    });
  }

  /** Ask for several answers: `take(msg)` says whether that was the last. Resolves then, or when time is up. */
  requestMany(subject, data, take, { timeout = REQUEST_MS, headers = null } = {}) {
    return new Promise((resolve, reject) => {
      const ended = (error) => (error.kind === "late" && answers ? resolve(false) : reject(error));
      let answers = 0;
      const part = this._ask(subject, data, headers, timeout, (msg) => {
        answers++;
        if (msg.status === "503") {
          this._done(part);
          reject(new RequestFailed("nobody", `nobody answers on ${subject}`));
        } else if (take(msg)) {
          this._done(part);
          resolve(true);
        }
      }, ended);
    });
  }

  _ask(subject, data, headers, timeout, answer, reject) {
    if (this.state !== "open") {
      reject(new RequestFailed("lost", "not connected"));
      return "";
    }
    const part = (this._nextRequest++).toString(36);
    const timer = setTimeout(() => {
      this._done(part);
      reject(new RequestFailed("late", `no answer on ${subject} within ${timeout / 1000} s`));
    }, timeout);
    this._requests.set(part, { subject, answer, reject, timer });
    this.publish(subject, data, { reply: `${this._inbox}.${part}`, headers });
    return part;
  }

  _done(part) {
    const found = this._requests.get(part);
    if (found) clearTimeout(found.timer);
    this._requests.delete(part);
    return found;
  }

  /** `taken(msg)` for each message; `denied(text)` if the user may not. Gives a function that ends it. */
  subscribe(subject, taken, denied = null) {
    const sid = String(this._nextSid++);
    this._subscriptions.set(sid, { subject, taken, denied });
    if (this.state === "open") this._send(`SUB ${subject} ${sid}\r\n`);
    return () => {
      if (this._subscriptions.delete(sid) && this.state === "open") this._send(`UNSUB ${sid}\r\n`);
    };
  }

  /** How long the way there and back takes, in milliseconds. */
  rtt() {
    return new Promise((resolve, reject) => {
      if (this.state !== "open") return reject(new RequestFailed("lost", "not connected"));
      const from = performance.now();
      this._pongs.push({ resolve: () => resolve(performance.now() - from), reject });
      this._send("PING\r\n");
    });
  }

  // --- the socket ---------------------------------------------------------------------------------------------------

  _send(...parts) {
    if (!this._socket || this._socket.readyState !== WebSocket.OPEN) return;
    const pieces = parts.map((part) => (typeof part === "string" ? coder.encode(part) : part));
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    this.sent += whole.length;
    this._socket.send(whole);
  }

  _become(state, reason) {
    this.state = state;
    this.reason = reason;
    this._changed(state);
  }

  _fail(kind, text) {
    for (const part of [...this._requests.keys()]) this._done(part).reject(new RequestFailed(kind, text));
    for (const pong of this._pongs.splice(0)) pong.reject(new RequestFailed(kind, text));
  }

  _lost() {
    const was = this.state;
    this._fail("lost", "the connection was lost");
    this.info = {};
    if (was === "asking") {
      // It ends connections that do not say who they are; `login` opens another.
      return;
    }
    if (was !== "waiting") this._wait = WAIT_MIN_MS;
    else this._wait = Math.min(this._wait * 2, WAIT_MAX_MS);
    if (was !== "waiting") this._become("waiting", "The server does not answer.");
    this._timer = setTimeout(() => this.open(), this._wait);
  }

  async _connect() {
    const connect = {
      verbose: false, pedantic: false, protocol: 1, headers: true, no_responders: true, echo: true,
      lang: "slipstream-dashboard", version: "1", name: "dashboard",
    };
    const { user, pass, token, credentials } = this._login;
    try {
      if (credentials) {
        const own = readCredentials(credentials);
        const signed = await sign(own.seed, this.info.nonce || "");
        Object.assign(connect, own.token ? { jwt: own.token, sig: signed.sig } : signed);
      } else if (token) connect.auth_token = token;
      else if (user) Object.assign(connect, { user, pass: pass || "" });
    } catch (error) {
      this._login = null;
      this._become("asking", error.message);
      return;
    }
    if (this.state !== "waiting") this._become("connecting", "");
    this._send(`CONNECT ${JSON.stringify(connect)}\r\nSUB ${this._inbox}.* 0\r\nPING\r\n`);
    this._pongs.unshift({ resolve: () => this._opened(), reject: () => {} });
  }

  _opened() {
    if (this.state === "waiting") this.reconnects++;
    this._wait = WAIT_MIN_MS;
    for (const [sid, { subject }] of this._subscriptions) this._send(`SUB ${subject} ${sid}\r\n`);
    this._become("open", "");
  }

  _greeted(info) {
    const first = !this.info.server_id;
    this.info = { ...this.info, ...info };
    if (!first) return;
    if (this._login) this._connect();
    else if (info.auth_required) this._become("asking", this.reason);
    else this.login({});
  }

  _complained(text) {
    const denied = /^Permissions Violation for (Publish|Subscription) to "(.*?)"/i.exec(text);
    if (denied && denied[1].toLowerCase() === "publish") {
      for (const [part, each] of [...this._requests]) {
        if (each.subject !== denied[2]) continue;
        this._done(part);
        each.reject(new RequestFailed("denied", `This user may not publish to ${denied[2]}.`));
      }
      return;
    }
    if (denied) {
      for (const [sid, each] of [...this._subscriptions]) {
        if (each.subject !== denied[2]) continue;
        this._subscriptions.delete(sid);
        if (each.denied) each.denied(`This user may not subscribe to ${denied[2]}.`);
      }
      return;
    }
    if (/^(authorization violation|authentication|user authentication)/i.test(text)) {
      this._login = null;
      this._become("asking", this.state === "asking" ? "" : "The server does not know this user, or not with this secret.");
      return;
    }
    this._failed(text);
  }

  // --- the protocol -------------------------------------------------------------------------------------------------

  _received(data) {
    let buffer = data;
    if (this._buffer.length) {
      buffer = new Uint8Array(this._buffer.length + data.length);
      buffer.set(this._buffer);
      buffer.set(data, this._buffer.length);
    }
    let at = 0;
    for (;;) {
      const end = buffer.indexOf(10, at);
      if (end < 0) break;
      const line = decoder.decode(buffer.subarray(at, end - 1));
      const blank = line.indexOf(" ");
      const operation = (blank < 0 ? line : line.slice(0, blank)).toUpperCase();
      const rest = blank < 0 ? "" : line.slice(blank + 1);
      if (operation === "MSG" || operation === "HMSG") {
        const after = this._message(operation, rest.split(" "), buffer, end + 1);
        if (after < 0) break;
        at = after;
        continue;
      }
      at = end + 1;
      if (operation === "PING") this._send("PONG\r\n");
      else if (operation === "PONG") this._pongs.shift()?.resolve();
      else if (operation === "INFO") this._greeted(JSON.parse(rest));
      else if (operation === "-ERR") this._complained(rest.replace(/^'|'$/g, ""));
    }
    this._buffer = buffer.slice(at);
  }

  /** Where the message ends, or -1 when the rest of it is not there yet. */
  _message(operation, words, buffer, from) {
    const total = Number(words.at(-1));
    const until = from + total;
    if (buffer.length < until + 2) return -1;
    const withHeaders = operation === "HMSG";
    const headBytes = withHeaders ? Number(words.at(-2)) : 0;
    const reply = words.length === (withHeaders ? 5 : 4) ? words[2] : "";
    const headers = withHeaders ? readHeaders(decoder.decode(buffer.subarray(from, from + headBytes))) : null;
    this._deliver(words[1], new Msg(words[0], reply, headers, buffer.slice(from + headBytes, until)));
    return until + 2;
  }

  _deliver(sid, msg) {
    if (sid === "0") {
      const asked = this._requests.get(msg.subject.slice(msg.subject.lastIndexOf(".") + 1));
      if (asked) asked.answer(msg);
    } else {
      this._subscriptions.get(sid)?.taken(msg);
    }
  }
}

export function readHeaders(text) {
  const lines = text.split("\r\n");
  const [, status = "", words = ""] = /^NATS\/1\.0\s*(\d+)?\s*(.*)$/.exec(lines[0]) || [];
  const pairs = [];
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(":");
    if (colon > 0) pairs.push([line.slice(0, colon), line.slice(colon + 1).trim()]);
  }
  return { status, words, pairs };
}

export function random() {
  const bytes = crypto.getRandomValues(new Uint8Array(11));
  return Array.from(bytes, (byte) => (byte % 36).toString(36)).join("") + Date.now().toString(36);
}
