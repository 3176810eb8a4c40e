// The JetStream API as a page needs it, and reading a stream with no more rights than reading needs.

import { fromBase64 } from "./format.js";
import { readHeaders } from "./nats.js";

const LIST_AT_ONCE = 8;
const READ_MS = 10000;
const BATCH_BYTES = 4 << 20; // of one page of messages

/** The server's answer is an error. */
export class ApiError extends Error {
  constructor({ code, err_code: errCode, description }) {
    super(description || `error ${code}`);
    this.code = code;
    this.errCode = errCode;
  }
}

export class JetStream {
  constructor(nats) {
    this.nats = nats;
  }

  async api(call, body = null) {
    const answer = (await this.nats.request(`$JS.API.${call}`, body === null ? "" : JSON.stringify(body))).json();
    if (answer.error) throw new ApiError(answer.error);
    return answer;
  }

  /** All pages of a list. */
  async list(call, member, body = {}) {
    const first = await this.api(call, { ...body, offset: 0 });
    const found = first[member] || [];
    const size = first.limit || found.length || 1;
    const offsets = [];
    for (let offset = size; offset < first.total; offset += size) offsets.push(offset);
    while (offsets.length) {
      const pages = offsets.splice(0, LIST_AT_ONCE).map((offset) => this.api(call, { ...body, offset }));
      for (const page of await Promise.all(pages)) found.push(...(page[member] || []));
    }
    return found;
  }

  streams() {
    return this.list("STREAM.LIST", "streams");
  }

  consumers(stream) {
    return this.list(`CONSUMER.LIST.${stream}`, "consumers");
  }

  stream(name) {
    return this.api(`STREAM.INFO.${name}`);
  }

  /** Subjects of a stream with the number of their messages, and whether there are more than were read. */
  async subjects(name, filter, most) {
    const found = {};
    for (let offset = 0; ; ) {
      const page = await this.api(`STREAM.INFO.${name}`, { subjects_filter: filter, offset });
      const subjects = page.state.subjects || {};
      Object.assign(found, subjects);
      offset += Object.keys(subjects).length;
      if (!Object.keys(subjects).length || offset >= (page.total || 0)) return { subjects: found, more: false };
      if (offset >= most) return { subjects: found, more: true };
    }
  }

  /** Publish into a stream; the sequence that the message got. */
  async publish(subject, data, headers = null) {
    const answer = (await this.nats.request(subject, data, { headers })).json();
    if (answer.error) throw new ApiError(answer.error);
    if (typeof answer.seq !== "number") throw new Error(`no stream stores ${subject}`);
    return answer;
  }

  /** The message at a sequence, the next from there (with `filter`), or null. */
  async get(stream, ask) {
    try {
      const { message } = await this.api(`STREAM.MSG.GET.${stream}`, ask);
      const headers = message.hdrs ? readHeaders(new TextDecoder().decode(fromBase64(message.hdrs))).pairs : [];
      const data = fromBase64(message.data);
      return { seq: message.seq, time: message.time, subject: message.subject, headers, data };
    } catch (error) {
      if (error.code === 404) return null;
      throw error;
    }
  }

  /**
   * Up to `batch` messages from a sequence on, or from a time on, of the subjects that `filter` means.
   * In one request where the stream answers those and the user may ask, else one by one.
   */
  async read(info, { seq = 1, time = null, filter = "", batch = 50 }) {
    if (info.config.allow_direct) {
      try {
        return await this._readDirect(info, { seq, time, filter, batch });
      } catch (error) {
        if (!["denied", "nobody"].includes(error.kind)) throw error;
      }
    }
    const stream = info.config.name;
    const found = [];
    let at = time === null ? seq : await this._sequenceAt(stream, info.state, time);
    while (found.length < batch) {
      const message = await this.get(stream, { seq: at, next_by_subj: filter || ">" });
      if (!message) break;
      found.push(message);
      at = message.seq + 1;
    }
    return found;
  }

  async _readDirect(info, { seq, time, filter, batch }) {
    const ask = { batch, max_bytes: BATCH_BYTES, next_by_subj: filter || ">" };
    if (time === null) ask.seq = Math.max(seq, 1);
    else ask.start_time = new Date(time).toISOString();
    const found = [];
    let problem = null;
    await this.nats.requestMany(`$JS.API.DIRECT.GET.${info.config.name}`, JSON.stringify(ask), (msg) => {
      if (msg.status && msg.status !== "200") {
        if (!["204", "404"].includes(msg.status)) problem = new ApiError({ code: Number(msg.status), description: msg.words });
        return true;
      }
      found.push(directMessage(msg));
      return false;
    }, { timeout: READ_MS });
    if (problem) throw problem;
    return found;
  }

  /** The last message of each subject that a filter means. */
  async lasts(info, filter, each = () => {}) {
    const found = [];
    let problem = null;
    if (!info.config.allow_direct) {
      const { subjects } = await this.subjects(info.config.name, filter, 1000);
      for (const subject of Object.keys(subjects)) {
        const message = await this.get(info.config.name, { last_by_subj: subject });
        if (message) found.push(message);
      }
      return found;
    }
    const ask = { multi_last: [filter], batch: 1000 };
    await this.nats.requestMany(`$JS.API.DIRECT.GET.${info.config.name}`, JSON.stringify(ask), (msg) => {
      if (msg.status && msg.status !== "200") {
        if (!["204", "404"].includes(msg.status)) problem = new ApiError({ code: Number(msg.status), description: msg.words });
        return true;
      }
      found.push(directMessage(msg));
      each(found.at(-1));
      return false;
    }, { timeout: READ_MS });
    if (problem) throw problem;
    return found;
  }

  /** The sequence of the first message not before a time, by halving: works where only single reads are allowed. */
  async _sequenceAt(stream, state, time) {
    let low = state.first_seq;
    let high = state.last_seq + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const message = await this.get(stream, { seq: middle, next_by_subj: ">" });
      if (message && Date.parse(message.time) < time) low = message.seq + 1;
      else high = middle;
    }
    return low;
  }
}

const OWN_HEADERS = new Set(["nats-stream", "nats-subject", "nats-sequence", "nats-time-stamp", "nats-num-pending", "nats-last-sequence", "nats-upto-sequence"]);

function directMessage(msg) {
  return {
    seq: Number(msg.header("Nats-Sequence")),
    time: msg.header("Nats-Time-Stamp"),
    subject: msg.header("Nats-Subject"),
    headers: msg.headers.filter(([name]) => !OWN_HEADERS.has(name.toLowerCase())),
    data: msg.data,
  };
}

/** The streams of the account, for all pages: read again as often as it costs little. */
export class Catalogue {
  constructor(js, changed) {
    this.js = js;
    this.changed = changed;
    this.streams = []; // infos, by name
    this.rates = new Map(); // messages a second, by stream
    this.loaded = false;
    this.error = null;
    this._last = new Map(); // last sequence by stream
    this._readAt = 0;
    this._dueAt = 0;
    this._reading = null;
  }

  find(name) {
    return this.streams.find((info) => info.config.name === name);
  }

  /** Read if it is time; `now` reads in any case. */
  refresh(now = false) {
    if (this._reading) return this._reading;
    if (!now && performance.now() < this._dueAt) return Promise.resolve();
    this._reading = this._read().finally(() => (this._reading = null));
    return this._reading;
  }

  async _read() {
    const began = performance.now();
    try {
      const streams = await this.js.streams();
      const passed = (began - this._readAt) / 1000;
      for (const { config, state } of streams) {
        const before = this._last.get(config.name);
        if (before !== undefined && this._readAt) this.rates.set(config.name, Math.max(0, state.last_seq - before) / passed);
        this._last.set(config.name, state.last_seq);
      }
      streams.sort((one, other) => (one.config.name < other.config.name ? -1 : 1));
      this.streams = streams;
      this.loaded = true;
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this._readAt = began;
    // A stream costs the server some thirty microseconds to list: ten pages together take a hundredth of its time.
    this._dueAt = performance.now() + Math.min(60000, Math.max(1900, 30 * this.streams.length));
    this.changed();
  }
}
