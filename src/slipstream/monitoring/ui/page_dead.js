// Dead letters: what consumers gave up, by cause, with a way back.

import { h } from "./dom.js";
import { bytes, count, matches, moment, plural } from "./format.js";
import { lastMessages } from "./messages.js";
import { button, confirmTyped, facts, head, headerTable, longTable, openForm, payload, problem, search, timeCell } from "./widgets.js";

const LETTERS_MAX = 1000; // of one subject, the newest
const STREAMS_MAX = 500; // whose consumers are asked where their dead go
const AT_ONCE = 8;
const READ_MS = 5000;
const KEY = "slipstream.dlq";

export function page(app) {
  const state = { targets: null, letters: [], error: null, filter: "", cause: "", list: {}, chosen: "", shape: {}, busy: "" };
  app.every(READ_MS, () => read(app, state));
  return { title: "Dead letters", className: "fill", view: () => view(app, state) };
}

/** Subjects that streams and consumers name for their dead, and the streams that store those. */
async function findTargets(app) {
  await app.catalogue.refresh(true);
  if (app.catalogue.error) throw app.catalogue.error;
  const { streams } = app.catalogue;
  const subjects = new Set(streams.map(({ config }) => config.metadata?.[KEY]).filter(Boolean));
  const asked = streams.filter(({ state }) => state.consumer_count > 0).slice(0, STREAMS_MAX);
  while (asked.length) {
    const lists = await Promise.all(asked.splice(0, AT_ONCE).map(({ config }) => app.js.consumers(config.name)));
    for (const info of lists.flat()) if (info.config.metadata?.[KEY]) subjects.add(info.config.metadata[KEY]);
  }
  return [...subjects].sort().map((subject) => ({ subject, stream: streams.find(({ config }) => (config.subjects || []).some((pattern) => matches(pattern, subject))) }));
}

async function read(app, state) {
  try {
    const targets = await findTargets(app);
    const letters = [];
    for (const { subject, stream } of targets) {
      if (!stream) continue;
      for (const message of await lastMessages(app, stream, subject, stream.state.last_seq, LETTERS_MAX)) letters.push(letterOf(message, stream));
    }
    letters.sort((one, other) => (one.time < other.time ? 1 : -1));
    Object.assign(state, { targets, letters, error: null });
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

function letterOf(message, stream) {
  const header = (name) => message.headers.find(([key]) => key.toLowerCase() === `slipstream-dlq-${name}`)?.[1] || "";
  return {
    ...message, key: `${stream.config.name} ${message.seq}`, home: stream.config.name, stream: header("stream"), consumer: header("consumer"),
    original: header("subject"), sequence: Number(header("sequence")) || 0, deliveries: Number(header("deliveries")) || 0, reason: header("reason") || "no reason given",
  };
}

const causeOf = (letter) => `${letter.stream} ${letter.consumer} ${letter.reason}`;

function view(app, state) {
  const causes = new Map();
  for (const letter of state.letters) {
    const cause = causeOf(letter);
    if (!causes.has(cause)) causes.set(cause, { letter, number: 0 });
    causes.get(cause).number++;
  }
  const words = state.filter.toLowerCase();
  const shown = state.letters.filter((letter) => (!state.cause || causeOf(letter) === state.cause) && (!words || `${causeOf(letter)} ${letter.original}`.toLowerCase().includes(words)));
  const columns = [
    { name: "Died", class: "time mid", sort: ({ time }) => time, cell: ({ time }) => timeCell(time) },
    { name: "Consumer", class: "name", sort: ({ stream, consumer }) => `${stream} ${consumer}`, cell: ({ stream, consumer }) => `${stream} › ${consumer}` },
    { name: "Subject", class: "subject wide", sort: ({ original }) => original, cell: ({ original }) => h("code", {}, original) },
    { name: "Tries", class: "number wide", sort: ({ deliveries }) => deliveries, cell: ({ deliveries }) => count(deliveries) },
    { name: "Why", class: "text", sort: ({ reason }) => reason, cell: ({ reason }) => reason },
  ];
  const chosen = state.letters.find(({ key }) => key === state.chosen);
  const lost = (state.targets || []).filter(({ stream }) => !stream);
  return [
    head(["Dead letters ", h("span", { class: "note" }, state.targets ? count(state.letters.length) : "")], search(app, state, "Filter letters"),
      button("Redrive all shown", () => redriveAll(app, state, shown), { disabled: !shown.length || Boolean(state.busy) })),
    problem(state.error),
    state.busy && h("p", { class: "notice ok", role: "status" }, state.busy),
    lost.length > 0 && h("p", { class: "notice" }, `No stream stores ${lost.map(({ subject }) => subject).join(", ")}: those dead letters are not kept.`),
    causes.size > 0 && h("div", { class: "causes" }, [...causes].sort(([, one], [, other]) => other.number - one.number).slice(0, 12).map(([cause, { letter, number }]) =>
      h("button", { type: "button", key: cause, class: state.cause === cause ? "cause on" : "cause", "aria-pressed": String(state.cause === cause), onclick: () => {
        state.cause = state.cause === cause ? "" : cause;
        app.redraw();
      } }, h("strong", {}, count(number)), h("span", {}, letter.reason), h("span", { class: "note" }, `${letter.stream} › ${letter.consumer}`)))),
    h("div", { class: `split ${chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, Object.assign(state.list, { chosen: state.chosen }), {
        columns, items: shown, key: ({ key }) => key, label: "Dead letters", className: "letters",
        empty: !state.targets ? "Reading …" : state.targets.length ? "No message was given up." : `No stream or consumer says where its dead letters go: its metadata would have ${KEY}.`,
        open: ({ key }) => {
          state.chosen = key;
          app.redraw();
        },
      })),
      chosen && detail(app, state, chosen)),
  ];
}

function detail(app, state, letter) {
  return h("aside", { class: "detail", key: letter.key, "aria-label": `Letter ${letter.seq}` },
    h("div", { class: "bar" }, h("h2", {}, letter.reason), button("Close", () => {
      state.chosen = "";
      app.redraw();
    }, { class: "quiet" })),
    facts([["From", `${letter.stream}, message ${count(letter.sequence)}`], ["Consumer", letter.consumer], ["Subject", h("code", {}, letter.original)], ["Deliveries", count(letter.deliveries)], ["Died", moment(letter.time)], ["Kept in", `${letter.home}, message ${count(letter.seq)} · ${bytes(letter.data.length)}`]]),
    headerTable(ownHeaders(letter)),
    payload(app, state.shape, letter.data),
    h("div", { class: "bar" }, button("Redrive", () => redriveOne(app, state, letter), { class: "primary" }), button("Delete", () => remove(app, state, letter), { class: "danger" })));
}

/** The headers the message had itself. */
function ownHeaders(letter) {
  return letter.headers.filter(([name]) => !/^(slipstream-dlq-|nats-)/i.test(name));
}

/** Publish it where it was published first, and only when it is stored there, forget the letter. */
async function redrive(app, letter) {
  if (!letter.original) throw new Error(`Message ${letter.seq} of ${letter.home} does not say where it came from.`);
  const ack = await app.js.publish(letter.original, letter.data, ownHeaders(letter));
  try {
    await app.js.api(`STREAM.MSG.DELETE.${letter.home}`, { seq: letter.seq });
  } catch (error) {
    throw new Error(`It is published again, as ${ack.seq} of ${ack.stream}, but the letter stays: ${error.message}`);
  }
  return ack;
}

function forget(state, letter) {
  state.letters = state.letters.filter((each) => each !== letter);
  if (state.chosen === letter.key) state.chosen = "";
}

function redriveOne(app, state, letter) {
  openForm(app, {
    title: "Redrive", action: "Redrive",
    body: () => h("p", {}, "The message is published again to ", h("code", {}, letter.original), ". When it is stored there, the letter is deleted."),
    submit: async () => {
      const ack = await redrive(app, letter);
      forget(state, letter);
      app.toast(`Stored in ${ack.stream} as ${count(ack.seq)}`);
    },
  });
}

function redriveAll(app, state, letters) {
  const name = String(letters.length);
  confirmTyped(app, {
    title: `Redrive ${plural(letters.length, "letter")}`, name, action: "Redrive", text: "Each message is published again where it came from, the oldest first; its letter is deleted when it is stored there.",
    submit: async () => {
      let done = 0;
      try {
        for (const letter of [...letters].reverse()) {
          await redrive(app, letter);
          forget(state, letter);
          state.busy = `${count(++done)} of ${name} published again`;
          app.redraw();
        }
      } finally {
        state.busy = "";
      }
      app.toast(`${plural(done, "message")} published again`);
    },
  });
}

function remove(app, state, letter) {
  confirmTyped(app, {
    title: "Delete letter", name: String(letter.seq), action: "Delete", text: `Message ${count(letter.seq)} of ${letter.home} goes for good: nothing of it is left.`,
    submit: async () => {
      await app.js.api(`STREAM.MSG.DELETE.${letter.home}`, { seq: letter.seq });
      forget(state, letter);
      app.toast("The letter is deleted");
    },
  });
}

