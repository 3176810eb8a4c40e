// The messages of a stream: from a sequence, a time or a subject on, or as they come.

import { h } from "./dom.js";
import { asText, bytes, count, moment, plural, preview, readCount } from "./format.js";
import { publishForm } from "./publish_form.js";
import { button, choice, confirmTyped, headerTable, longTable, payload, problem, search, timeCell } from "./widgets.js";

const PAGE = 100;
const TAIL_MS = 700;
const TAIL_AT_ONCE = 200; // of one look; what comes faster is counted and passed over
const KEPT_MAX = 2000; // messages in the page

export function messagesTab(app, stream, query) {
  const state = {
    mode: "last", from: "", subject: query.get("subject") || "", filter: "", messages: [], chosen: null, error: null, busy: false, ended: false,
    list: {}, shape: {}, skipped: 0, first: true,
  };
  if (query.get("seq")) Object.assign(state, { mode: "seq", from: query.get("seq") });
  const tab = { view: () => view(app, stream, state), learned: () => state.first && ((state.first = false), read(app, stream, state)) };
  if (stream.info) tab.learned();
  app.every(TAIL_MS, () => state.mode === "tail" && stream.info && tail(app, stream, state));
  return tab;
}

async function read(app, stream, state) {
  if (!stream.info) return;
  state.busy = true;
  state.error = null;
  state.chosen = null;
  state.messages = [];
  state.skipped = 0;
  app.redraw();
  try {
    stream.info = await app.js.stream(stream.name);
    const filter = state.subject.trim();
    if (state.mode === "seq") state.messages = await app.js.read(stream.info, { seq: readCount(state.from || "1"), filter, batch: PAGE });
    else if (state.mode === "time") {
      const time = Date.parse(state.from);
      if (!Number.isFinite(time)) throw new Error("Choose a day and a time.");
      state.messages = await app.js.read(stream.info, { time, filter, batch: PAGE });
    } else if (state.mode === "last") state.messages = await lastMessages(app, stream.info, filter, stream.info.state.last_seq, PAGE);
    else state.next = stream.info.state.last_seq + 1;
  } catch (error) {
    state.error = error;
  }
  state.ended = state.messages.length < PAGE;
  state.busy = false;
  app.redraw();
}

/** The last messages up to a sequence: a window that grows until there are enough, as a stream is read forwards only. */
export async function lastMessages(app, info, filter, until, wanted) {
  const { first_seq: first } = info.state;
  for (let window = wanted; ; window *= 8) {
    const seq = Math.max(first, until - window + 1);
    const found = [];
    for (let at = seq; ; ) {
      const page = (await app.js.read(info, { seq: at, filter, batch: PAGE })).filter((message) => message.seq <= until);
      found.push(...page);
      if (found.length > wanted) found.splice(0, found.length - wanted);
      if (page.length < PAGE) break;
      at = page.at(-1).seq + 1;
    }
    if (found.length >= wanted || seq <= first) return found;
  }
}

async function more(app, stream, state) {
  state.busy = true;
  app.redraw();
  await app.attempt(async () => {
    const filter = state.subject.trim();
    if (state.mode === "last") {
      const until = (state.messages[0]?.seq ?? 1) - 1;
      const found = until < stream.info.state.first_seq ? [] : await lastMessages(app, stream.info, filter, until, PAGE);
      state.ended = found.length < PAGE;
      state.messages = [...found, ...state.messages].slice(0, KEPT_MAX);
    } else {
      const found = await app.js.read(stream.info, { seq: (state.messages.at(-1)?.seq ?? 0) + 1, filter, batch: PAGE });
      state.ended = found.length < PAGE;
      state.messages = [...state.messages, ...found].slice(-KEPT_MAX);
    }
  });
  state.busy = false;
  app.redraw();
}

async function tail(app, stream, state) {
  try {
    const filter = state.subject.trim();
    const found = await app.js.read(stream.info, { seq: state.next || 1, filter, batch: TAIL_AT_ONCE });
    if (!found.length || state.mode !== "tail") return;
    state.next = found.at(-1).seq + 1;
    if (found.length === TAIL_AT_ONCE) {
      // It comes faster than anybody reads: go on with what is new.
      const { last_seq: newest } = (await app.js.stream(stream.name)).state;
      state.skipped += Math.max(0, newest - state.next + 1);
      state.next = newest + 1;
    }
    state.messages = [...state.messages, ...found].slice(-KEPT_MAX);
    state.error = null;
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

function shown(app, state) {
  const words = state.filter.toLowerCase();
  const newestFirst = state.mode === "last" || state.mode === "tail";
  const found = words ? state.messages.filter((message) => {
    if (message.subject.toLowerCase().includes(words)) return true;
    if (message.headers.some(([name, value]) => `${name}: ${value}`.toLowerCase().includes(words))) return true;
    return !app.hidesPayloads && (asText(message.data) || "").toLowerCase().includes(words);
  }) : state.messages;
  return newestFirst ? [...found].reverse() : found;
}

function view(app, stream, state) {
  const again = () => read(app, stream, state);
  const submit = (event) => {
    event.preventDefault();
    again();
  };
  const typed = (name) => (event) => {
    state[name] = event.target.value;
    app.redraw();
  };
  const columns = [
    { name: "Sequence", class: "number seq", cell: (message) => count(message.seq) },
    { name: "Time", class: "time mid", cell: (message) => timeCell(message.time) },
    { name: "Subject", class: "subject", cell: (message) => h("code", {}, message.subject) },
    { name: "Payload", class: "text", cell: (message) => (app.hidesPayloads ? h("span", { class: "note" }, "hidden") : h("code", {}, preview(message.data))) },
    { name: "Size", class: "number wide", cell: (message) => bytes(message.data.length) },
  ];
  const items = shown(app, state);
  return [
    h("form", { class: "bar", onsubmit: submit },
      choice(app, state, "mode", [["last", "Newest"], ["seq", "From sequence"], ["time", "From time"], ["tail", "Live"]], () => {
        state.from = "";
        if (state.mode === "last" || state.mode === "tail") again();
      }),
      state.mode === "seq" && h("input", { key: "seq", class: "short", inputmode: "numeric", placeholder: "1", "aria-label": "Sequence", value: state.from, oninput: typed("from") }),
      state.mode === "time" && h("input", { key: "time", type: "datetime-local", step: "1", "aria-label": "Time", value: state.from, oninput: typed("from") }),
      h("input", { class: "subject", placeholder: "Subject, e.g. orders.eu.>", "aria-label": "Subject", value: state.subject, oninput: typed("subject"), onchange: again }),
      h("button", { type: "submit", class: "primary" }, "Read"),
      search(app, state, "Find in these"),
      h("span", { class: "note" }, state.busy ? "Reading …" : plural(items.length, "message"), state.skipped ? `, ${count(state.skipped)} passed over` : "")),
    problem(state.error),
    h("div", { class: `split ${state.chosen ? "both" : ""}` },
      h("div", { class: "left" },
        longTable(app, Object.assign(state.list, { chosen: state.chosen?.seq }), {
          columns, items, key: (message) => message.seq, label: "Messages", className: "messages",
          open: (message) => {
            state.chosen = message;
            app.redraw();
          },
          empty: state.busy ? "Reading …" : state.mode === "tail" ? "Waiting for messages …" : "No messages here.",
        }),
        state.mode !== "tail" && !state.ended && h("div", { class: "bar foot" }, button(state.mode === "last" ? "Older" : "More", () => more(app, stream, state), { disabled: state.busy }))),
      state.chosen && detail(app, stream, state, state.chosen)),
  ];
}

function detail(app, stream, state, message) {
  return h("aside", { class: "detail", key: message.seq, "aria-label": `Message ${message.seq}` },
    h("div", { class: "bar" }, h("h2", {}, count(message.seq)), h("span", { class: "note" }, moment(message.time)), button("Close", () => {
      state.chosen = null;
      app.redraw();
    }, { class: "quiet" })),
    h("p", {}, h("code", {}, message.subject)),
    headerTable(message.headers),
    payload(app, state.shape, message.data),
    h("div", { class: "bar" },
      button("Publish again", () => publishForm(app, stream.info, { subject: message.subject, headers: message.headers.filter(([name]) => !/^nats-/i.test(name)).map((pair) => pair.join(": ")).join("\n"), payload: asText(message.data) || "" }), { disabled: asText(message.data) === null }),
      button("Delete", () => remove(app, stream, state, message), { class: "danger" })));
}

function remove(app, stream, state, message) {
  confirmTyped(app, {
    title: `Delete message ${count(message.seq)}`, name: String(message.seq), action: "Delete",
    text: `The message on ${message.subject} goes for good, and what it said is overwritten.`,
    submit: async () => {
      await app.js.api(`STREAM.MSG.DELETE.${stream.name}`, { seq: message.seq });
      state.messages = state.messages.filter((each) => each !== message);
      state.chosen = null;
      app.toast(`Message ${count(message.seq)} is deleted`);
      app.tick(true);
    },
  });
}
