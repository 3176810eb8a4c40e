// What reads streams in bulk: Spark queries and jobs, writers of tables; how far they are, and what is kept for them.

import { h } from "./dom.js";
import { count, plural, short } from "./format.js";
import { empty, head, longTable, problem, search, timeCell } from "./widgets.js";

const READ_MS = 5000;
const STREAMS_MAX = 500;
const AT_ONCE = 8;

export function page(app) {
  const state = { readers: [], asked: 0, loaded: false, error: null, filter: "", list: {} };
  app.every(READ_MS, () => read(app, state));
  return { title: "Pipeline", className: "fill", view: () => view(app, state) };
}

async function read(app, state) {
  try {
    await app.catalogue.refresh();
    if (app.catalogue.error) throw app.catalogue.error;
    const names = app.catalogue.streams.map(({ config }) => config.name).slice(0, STREAMS_MAX);
    const found = [];
    for (let at = 0; at < names.length; at += AT_ONCE) {
      const infos = await Promise.all(names.slice(at, at + AT_ONCE).map((name) => app.js.api(`BULK.INFO.${name}`).catch((error) => {
        if (error.code === 404) return null; // it went meanwhile
        throw error;
      })));
      for (const info of infos) for (const hold of info?.holds || []) found.push(readerOf(info, hold));
    }
    Object.assign(state, { readers: found, asked: names.length, loaded: true, error: null });
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

function readerOf(info, hold) {
  return { key: `${info.stream} ${hold.id}`, stream: info.stream, by: hold.by || "a reader without a name", at: hold.first, behind: Math.max(0, info.last_seq - hold.first + 1), until: hold.expires };
}

function view(app, state) {
  const words = state.filter.toLowerCase();
  const shown = state.readers.filter(({ stream, by }) => !words || `${stream} ${by}`.toLowerCase().includes(words));
  const columns = [
    { name: "Reader", class: "name", sort: ({ by }) => by, cell: ({ by }) => by },
    { name: "Stream", class: "subject", sort: ({ stream }) => stream, cell: ({ stream }) => stream },
    { name: "Done before", class: "number mid", sort: ({ at }) => at, cell: ({ at }) => count(at) },
    { name: "Behind", class: "number", sort: ({ behind }) => behind, falling: true, cell: ({ behind }) => short(behind) },
    { name: "Held until", class: "time wide", sort: ({ until }) => until, cell: ({ until }) => timeCell(until) },
  ];
  return [
    head(["Pipeline ", h("span", { class: "note" }, state.loaded ? plural(state.readers.length, "reader") : "")], search(app, state, "Filter readers")),
    problem(state.error),
    h("p", { class: "note" }, "Spark queries and jobs, and writers of Delta and Iceberg tables, hold what they have not committed: a stream keeps it for them, whatever its limits say."),
    app.catalogue.streams.length > STREAMS_MAX && h("p", { class: "notice" }, `Only the first ${count(STREAMS_MAX)} streams are asked.`),
    state.loaded || state.error ? longTable(app, state.list, {
      columns, items: shown, key: ({ key }) => key, label: "Readers", className: "readers", link: ({ stream }) => `#/stream/${encodeURIComponent(stream)}`,
      empty: "Nothing reads in bulk just now.",
    }) : empty("Reading …"),
  ];
}
