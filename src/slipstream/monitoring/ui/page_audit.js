// The audit trail: who did what to the server, as it is stored. Only users of the system account may read it.

import { h } from "./dom.js";
import { asText, count, moment } from "./format.js";
import { lastMessages } from "./messages.js";
import { badge, button, empty, facts, head, longTable, problem, search, timeCell } from "./widgets.js";

export const AUDIT_STREAM = "SLIPSTREAM_AUDIT";
const RECORDS = 500;
const READ_MS = 3000;

export function page(app) {
  const state = { records: [], loaded: false, missing: false, error: null, filter: "", list: {}, chosen: 0, last: 0 };
  app.every(READ_MS, () => read(app, state));
  return { title: "Audit", className: "fill", view: () => view(app, state) };
}

async function read(app, state) {
  try {
    const info = await app.js.stream(AUDIT_STREAM);
    const { last_seq: last } = info.state;
    if (!state.loaded || last !== state.last) state.records = (await lastMessages(app, info, "", last, RECORDS)).map(recordOf).reverse();
    Object.assign(state, { last, loaded: true, missing: false, error: null });
  } catch (error) {
    state.missing = error.code === 404 || error.code === 503;
    state.error = state.missing ? null : error;
  }
  app.redraw();
}

function recordOf(message) {
  let said = {};
  try {
    said = JSON.parse(asText(message.data) || "{}");
  } catch {
    // Nobody else writes here; but what cannot be read is shown all the same.
  }
  const client = said.client || {};
  return {
    seq: message.seq, time: said.timestamp || message.time, action: String(said.action || message.subject), account: String(said.account || ""),
    what: [said.stream, said.consumer, said.target].filter(Boolean).join(" › "), who: String(client.user || client.name || ""), host: String(client.host || ""),
    result: String(said.result || ""), why: String(said.error?.description || ""), said,
  };
}

function view(app, state) {
  if (state.missing) return [head("Audit"), empty("No audit trail is kept, or this user is not of the system account: jetstream { audit: true } turns it on.")];
  const words = state.filter.toLowerCase();
  const shown = state.records.filter((record) => !words || `${record.action} ${record.what} ${record.account} ${record.who} ${record.host} ${record.result} ${record.why}`.toLowerCase().includes(words));
  const columns = [
    { name: "When", class: "time mid", cell: ({ time }) => timeCell(time) },
    { name: "Action", class: "name", cell: ({ action }) => action },
    { name: "What", class: "text", cell: ({ what }) => h("code", {}, what) },
    { name: "Account", class: "subject wide", cell: ({ account }) => account },
    { name: "Who", class: "subject wide", cell: ({ who, host }) => (who || host ? [who, host].filter(Boolean).join(" from ") : "the server") },
    { name: "Result", class: "number", cell: ({ result }) => badge(result || "?", result === "ok" ? "ok" : "bad") },
  ];
  const chosen = state.records.find(({ seq }) => seq === state.chosen);
  return [
    head(["Audit ", h("span", { class: "note" }, state.loaded ? `${count(state.records.length)} newest${app.hasPeers ? `, of ${app.nats.info.server_name}` : ""}` : "")], search(app, state, "Filter actions"),
      h("a", { class: "as-button", href: `#/stream/${AUDIT_STREAM}/messages` }, "As a stream")),
    problem(state.error),
    h("div", { class: `split ${chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, Object.assign(state.list, { chosen: state.chosen }), {
        columns, items: shown, key: ({ seq }) => seq, label: "Actions", className: "actions-table", empty: state.loaded ? "Nothing was done yet." : "Reading …",
        open: ({ seq }) => {
          state.chosen = seq;
          app.redraw();
        },
      })),
      chosen && detail(app, state, chosen)),
  ];
}

function detail(app, state, record) {
  return h("aside", { class: "detail", key: record.seq, "aria-label": `Action ${record.seq}` },
    h("div", { class: "bar" }, h("h2", {}, record.action), button("Close", () => {
      state.chosen = 0;
      app.redraw();
    }, { class: "quiet" })),
    facts([["When", moment(record.time)], ["Account", record.account], record.what && ["What", h("code", {}, record.what)], ["Who", record.who || "the server"], record.host && ["From", record.host], ["Result", record.why ? `${record.result}: ${record.why}` : record.result]]),
    h("pre", { class: "json" }, JSON.stringify(record.said, null, 2)));
}
