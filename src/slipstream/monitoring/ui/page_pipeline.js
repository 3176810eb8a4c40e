// What reads streams in bulk: Spark queries and jobs, writers of tables; how far they are, and what is kept for them.

import { h } from "./dom.js";
import { count, plural, short } from "./format.js";
import { head, longTable, problem, search, timeCell } from "./widgets.js";

const READ_MS = 5000;
const STREAMS_AT_A_TIME = 300; // of those that nobody is known to read; each question costs the server a tenth of a millisecond
const AT_ONCE = 8;

export function page(app) {
  const state = { readers: new Map(), next: 0, asked: 0, streams: 0, loaded: false, left: false, error: null, filter: "", list: {} };
  app.every(READ_MS, () => read(app, state));
  return { title: "Pipeline", className: "fill", leave: () => (state.left = true), view: () => view(app, state) };
}

/** Streams with readers are asked every time, the others in turn. */
async function read(app, state) {
  try {
    await app.catalogue.refresh();
    if (app.catalogue.error) throw app.catalogue.error;
    const names = app.catalogue.streams.map(({ config }) => config.name);
    state.streams = names.length;
    const there = new Set(names);
    state.readers = new Map([...state.readers].filter(([name]) => there.has(name)));
    if (state.next >= names.length) state.next = 0;
    do {
      const turn = names.slice(state.next, state.next + STREAMS_AT_A_TIME);
      await ask(app, state, [...new Set([...state.readers.keys(), ...turn])]);
      state.next += turn.length;
      state.asked = Math.max(state.asked, state.next);
      app.redraw();
    } while (state.asked < names.length && !state.left); // all of them once, before they take turns
    Object.assign(state, { loaded: true, error: null });
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

async function ask(app, state, names) {
  for (let at = 0; at < names.length; at += AT_ONCE) {
    const infos = await Promise.all(names.slice(at, at + AT_ONCE).map((name) => app.js.api(`BULK.INFO.${name}`).catch((error) => {
      if (error.code === 404) return { stream: name }; // it went meanwhile
      throw error;
    })));
    for (const info of infos) {
      if (info.holds?.length) state.readers.set(info.stream, info.holds.map((hold) => readerOf(info, hold)));
      else state.readers.delete(info.stream);
    }
  }
}

function readerOf(info, hold) {
  return { key: `${info.stream} ${hold.id}`, stream: info.stream, by: hold.by || "a reader without a name", at: hold.first, behind: Math.max(0, info.last_seq - hold.first + 1), until: hold.expires };
}

function view(app, state) {
  const words = state.filter.toLowerCase();
  const all = [...state.readers.values()].flat();
  const shown = all.filter(({ stream, by }) => !words || `${stream} ${by}`.toLowerCase().includes(words));
  const columns = [
    { name: "Reader", class: "name", sort: ({ by }) => by, cell: ({ by }) => by },
    { name: "Stream", class: "subject", sort: ({ stream }) => stream, cell: ({ stream }) => stream },
    { name: "Done before", class: "number mid", sort: ({ at }) => at, cell: ({ at }) => count(at) },
    { name: "Behind", class: "number", sort: ({ behind }) => behind, falling: true, cell: ({ behind }) => short(behind) },
    { name: "Held until", class: "time wide", sort: ({ until }) => until, cell: ({ until }) => timeCell(until) },
  ];
  return [
    head(["Pipeline ", h("span", { class: "note" }, plural(all.length, "reader"))], search(app, state, "Filter readers")),
    problem(state.error),
    h("p", { class: "note" }, "Spark queries and jobs, and writers of Delta and Iceberg tables, hold what they have not committed: a stream keeps it for them, whatever its limits say."),
    longTable(app, state.list, {
      columns, items: shown, key: ({ key }) => key, label: "Readers", className: "readers", link: ({ stream }) => `#/stream/${encodeURIComponent(stream)}`,
      empty: state.loaded || state.error ? "Nothing reads in bulk just now." : `Reading … ${count(state.asked)} of ${plural(state.streams, "stream")}`,
    }),
  ];
}
