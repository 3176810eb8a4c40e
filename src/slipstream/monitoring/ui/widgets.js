// What pages are made of: tables, long lists, fields, dialogs, charts, payloads.

import { isAvroFile, readAvro } from "./avro.js";
import { h } from "./dom.js";
import { asText, base64, bytes, count, hex, moment } from "./format.js";
import { readProtobuf } from "./protobuf.js";

export const ROW_PX = 34;
const SPARE_ROWS = 6;
const STREAM_NOT_FOUND = 10059;

export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d: ICONS[name] }));
}

const ICONS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-4H4zM14 8h6V4h-6z",
  streams: "M4 6h16M4 12h16M4 18h16",
  kv: "M11 12l9-9M16 7l3 3M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  objects: "M12 3l8 4.500v9L12 21l-8-4.500v-9zM4 7.500l8 4.500 8-4.500M12 12v9",
  dead: "M12 8v5M12 16.500v.5M10.300 4L2.500 18a2 2 0 0 0 1.700 3h15.600a2 2 0 0 0 1.700-3L13.700 4a2 2 0 0 0-3.400 0z",
  connections: "M9 15l6-6M11 6l1-1a4.500 4.500 0 0 1 6.500 6.500l-1 1M13 18l-1 1A4.500 4.500 0 0 1 5.500 12.500l1-1",
  pipeline: "M3 6h5v5H3zM16 13h5v5h-5zM8 8.500h4a2 2 0 0 1 2 2v3a2 2 0 0 0 2 2",
  audit: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5",
  cluster: "M12 4v5M6 20v-4l6-3 6 3v4M9 3h6v3H9zM3.500 18h5v3h-5zM15.500 18h5v3h-5z",
  eye: "M2 12s3.500-6 10-6 10 6 10 6-3.500 6-10 6S2 12 2 12zM12 9.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5z",
  hidden: "M3 3l18 18M10 6.200A10 10 0 0 1 12 6c6.500 0 10 6 10 6a17 17 0 0 1-3 3.500M6 7.500A17 17 0 0 0 2 12s3.500 6 10 6a10 10 0 0 0 4.500-1M9.900 9.900a3 3 0 0 0 4.200 4.200",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  leave: "M14 4h5v16h-5M4 12h11M8 8l-4 4 4 4",
  help: "M9.500 9a2.500 2.500 0 1 1 3.500 2.500c-.8.400-1 1-1 2M12 17v.5M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
};

export function button(label, onclick, more = {}) {
  return h("button", { type: "button", ...more, onclick }, label);
}

/** A heading with what can be done beside it. */
export function head(title, ...actions) {
  return h("header", { class: "head" }, h("h1", {}, title), h("div", { class: "actions" }, actions));
}

export function tile(label, value, note = "", more = {}) {
  return h("div", { class: `tile ${more.class || ""}`, "data-tile": label },
    h("span", { class: "label" }, label), h("strong", {}, value), note && h("span", { class: "note" }, note), more.chart);
}

export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", {}, text), more);
}

export function problem(error) {
  if (!error) return null;
  const denied = error.kind === "denied";
  return h("p", { class: denied ? "notice" : "notice bad", role: "alert" }, denied ? error.message : `That did not work: ${error.message}`);
}

/** The stream that a page is about is not there, or no longer. */
export function isMissing(error) {
  return error?.errCode === STREAM_NOT_FOUND;
}

export function missing(text, href, label) {
  return empty(text, h("a", { href }, label));
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** Names and values. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/**
 * A list of any length, of which only what is seen is in the page. `state` is kept by the caller between two views.
 * columns: [{name, class, cell(item), sort(item)}]; `key(item)` names a row; `link(item)` is where it leads.
 */
export function longTable(app, state, { columns, items, key, link, open, empty: nothing, label, className = "" }) {
  const sorted = state.sort ? sortedBy(items, columns.find((column) => column.name === state.sort), state.falling) : items;
  state.count = sorted.length;
  const first = Math.max(0, Math.floor((state.top || 0) / ROW_PX) - SPARE_ROWS);
  const last = Math.min(sorted.length, first + Math.ceil((state.height || 900) / ROW_PX) + 2 * SPARE_ROWS);
  const rows = [];
  for (let at = first; at < last; at++) {
    const item = sorted[at];
    const props = {
      class: `row ${state.cursor === at ? "cursor" : ""} ${state.chosen !== undefined && state.chosen === key(item) ? "chosen" : ""}`,
      key: key(item), role: "row", "aria-rowindex": at + 2, style: { transform: `translateY(${at * ROW_PX}px)` },
    };
    const cells = columns.map((column) => h("span", { class: `cell ${column.class || ""}`, role: "cell" }, column.cell(item)));
    if (link) rows.push(h("a", { ...props, href: link(item), tabIndex: -1 }, cells));
    else rows.push(h("div", { ...props, onclick: () => open && (state.cursor = at, open(item)) }, cells));
  }
  const chosen = (at) => {
    const item = sorted[at];
    if (item === undefined) return;
    if (link) app.go(link(item));
    else if (open) open(item);
  };
  return h("div", { class: `table ${className}`, role: "table", "aria-label": label, "aria-rowcount": sorted.length + 1 },
    h("div", { class: "row heads", role: "row", style: { "--bar": `${state.bar || 0}px` } }, columns.map((column) => headCell(app, state, column))),
    h("div", {
      class: "scroll", tabIndex: 0, role: "rowgroup",
      made: (node) => measure(app, state, node),
      onscroll: (event) => {
        state.top = event.target.scrollTop;
        app.redraw();
      },
      onkeydown: (event) => moveCursor(app, state, event, chosen),
    },
    sorted.length ? h("div", { class: "space", style: { height: `${sorted.length * ROW_PX}px` } }, rows) : empty(nothing || "Nothing here.")));
}

function headCell(app, state, column) {
  const sortable = Boolean(column.sort);
  const mark = state.sort === column.name ? (state.falling ? " ↓" : " ↑") : "";
  const choose = () => {
    state.falling = state.sort === column.name ? !state.falling : Boolean(column.falling);
    state.sort = column.name;
    app.redraw();
  };
  return h("span", { class: `cell ${column.class || ""}`, role: "columnheader", "aria-sort": mark ? (state.falling ? "descending" : "ascending") : undefined },
    sortable ? h("button", { type: "button", class: "sort", onclick: choose }, column.name + mark) : column.name);
}

function sortedBy(items, column, falling) {
  if (!column) return items;
  const values = new Map(items.map((item) => [item, column.sort(item)]));
  const sign = falling ? -1 : 1;
  return [...items].sort((one, other) => {
    const left = values.get(one);
    const right = values.get(other);
    return left === right ? 0 : left < right ? -sign : sign;
  });
}

function measure(app, state, node) {
  state.node = node;
  new ResizeObserver(() => {
    const bar = node.offsetWidth - node.clientWidth; // of scrolling: heads stay above their columns
    if (node.clientHeight === state.height && bar === state.bar) return;
    Object.assign(state, { height: node.clientHeight, bar });
    app.redraw();
  }).observe(node);
  if (state.top) requestAnimationFrame(() => (node.scrollTop = state.top));
}

function moveCursor(app, state, event, chosen) {
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  if (event.key === "Enter" && state.cursor !== undefined) {
    event.preventDefault();
    chosen(state.cursor);
    return;
  }
  if (!(event.key in steps) || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  const from = state.cursor === undefined ? (steps[event.key] > 0 ? -1 : 0) : state.cursor;
  state.cursor = Math.max(0, Math.min((state.count || 1) - 1, from + steps[event.key]));
  const top = state.cursor * ROW_PX;
  const node = state.node;
  if (top < node.scrollTop) node.scrollTop = top;
  else if (top + ROW_PX > node.scrollTop + node.clientHeight) node.scrollTop = top + ROW_PX - node.clientHeight;
  app.redraw();
}

/** A short table, all of it. */
export function plainTable(columns, rows, nothing = "Nothing here.") {
  if (!rows.length) return empty(nothing);
  return h("div", { class: "plain" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { class: kind, scope: "col" }, name)))),
    h("tbody", {}, rows.map((cells, at) => h("tr", { key: cells.key ?? at }, cells.map((cell, column) => h("td", { class: columns[column][1] }, cell)))))));
}

// --- fields -----------------------------------------------------------------------------------------------------------

/** A labelled field of a form: `values[name]` holds what is typed. */
export function field(app, values, name, label, more = {}) {
  const { type = "text", note, options, rows, ...props } = more;
  const id = `field-${name}`;
  const typed = (event) => {
    values[name] = type === "checkbox" ? event.target.checked : event.target.value;
    app.redraw();
  };
  let control;
  if (options) {
    control = h("select", { id, name, onchange: typed, ...props },
      options.map(([value, text]) => h("option", { value, selected: String(values[name]) === String(value) }, text)));
  } else if (rows) {
    control = h("textarea", { id, name, rows, spellcheck: "false", value: values[name] ?? "", oninput: typed, ...props });
  } else if (type === "checkbox") {
    control = h("input", { id, name, type, checked: Boolean(values[name]), onchange: typed, ...props });
  } else {
    control = h("input", { id, name, type, autocomplete: "off", spellcheck: "false", value: values[name] ?? "", oninput: typed, ...props });
  }
  return h("div", { class: `field ${type}` }, h("label", { for: id }, label), control, note && h("span", { class: "note" }, note));
}

export function search(app, state, placeholder, more = {}) {
  const typed = (event) => {
    state.filter = event.target.value;
    if (state.node) state.node.scrollTop = 0;
    state.top = 0;
    state.cursor = undefined;
    app.redraw();
  };
  return h("input", { type: "search", class: "search", placeholder, "aria-label": placeholder, value: state.filter || "", oninput: typed, ...more });
}

export function tabs(app, chosen, entries) {
  return h("nav", { class: "tabs" }, entries.map(([name, label, href]) =>
    h("a", { key: name, href, class: name === chosen ? "on" : "", "aria-current": name === chosen ? "page" : undefined }, label)));
}

export function choice(app, state, name, entries, changed = () => {}) {
  return h("span", { class: "choice", role: "group" }, entries.map(([value, label]) =>
    h("button", { type: "button", key: value, class: state[name] === value ? "on" : "", "aria-pressed": String(state[name] === value), onclick: () => {
      state[name] = value;
      changed();
      app.redraw();
    } }, label)));
}

// --- dialogs ----------------------------------------------------------------------------------------------------------

/** A form in front of the page. `submit()` may throw: then it stays, and says so. */
export function openForm(app, { title, values = {}, body, submit, action = "Save", danger = false, wide = false }) {
  const dialog = { title, values, error: null, busy: false };
  dialog.view = () => h("dialog", {
    class: wide ? "wide" : "", key: title, made: (node) => node.showModal(), onclose: () => app.closeDialog(dialog),
  }, h("form", { method: "dialog", onsubmit: (event) => send(event) },
    h("h2", {}, title), body(values, dialog), problem(dialog.error),
    h("footer", {}, h("button", { type: "button", onclick: () => app.closeDialog(dialog) }, submit ? "Cancel" : "Close"),
      submit && h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: dialog.busy || Boolean(dialog.blocked && dialog.blocked()) }, action))));
  const send = async (event) => {
    event.preventDefault();
    if (!submit || dialog.busy || (dialog.blocked && dialog.blocked())) return;
    dialog.busy = true;
    dialog.error = null;
    app.redraw();
    try {
      await submit(values);
      app.closeDialog(dialog);
    } catch (error) {
      dialog.error = error;
    }
    dialog.busy = false;
    app.redraw();
  };
  app.openDialog(dialog);
  return dialog;
}

/** Something that cannot be undone: done only after its name was typed. */
export function confirmTyped(app, { title, text, name, action, submit, body = () => null, values = {} }) {
  const dialog = openForm(app, {
    title, values: { typed: "", ...values }, action, danger: true, submit,
    body: (given) => [h("p", {}, text), body(given),
      field(app, given, "typed", ["Type ", h("code", {}, name), " to confirm"], { autofocus: true, "data-confirm": "1" })],
  });
  dialog.blocked = () => dialog.values.typed !== name;
}

// --- payloads ---------------------------------------------------------------------------------------------------------

/** What a message contains, as JSON, text or bytes; `state.form` is how. */
export function payload(app, state, data) {
  if (app.hidesPayloads) return h("p", { class: "hidden-payload" }, `${bytes(data.length)} of payload, hidden.`);
  const text = asText(data);
  const parsed = text !== null && /^\s*[[{"\d-]/.test(text) ? asJson(text) : undefined;
  const binary = text === null || Boolean(state.schema);
  const forms = [
    parsed !== undefined && ["json", "JSON"], text !== null && ["text", "Text"], isAvroFile(data) && ["avro", "Avro"], ["hex", "Hex"], ["base64", "Base64"],
    (binary || state.form === "protobuf") && ["protobuf", "Protobuf"], !isAvroFile(data) && (binary || state.form === "avro") && ["avro", "Avro"],
  ].filter(Boolean);
  const form = forms.some(([name]) => name === state.form) ? state.form : forms[0][0];
  const { shown, error } = written(form, state, data, text, parsed);
  return h("div", { class: "payload" },
    h("div", { class: "bar" }, h("span", { class: "choice", role: "group" }, forms.map(([value, label]) => h("button", {
      type: "button", key: value, class: form === value ? "on" : "", "aria-pressed": String(form === value), onclick: () => {
        state.form = value;
        app.redraw();
      } }, label))),
    h("span", { class: "note" }, bytes(data.length)),
    ["avro", "protobuf"].includes(form) && button(state.schema?.[form] ? "Change schema" : "Schema", () => schemaForm(app, state, form)),
    button("Copy", () => app.copy(shown))),
    error && h("p", { class: "notice", role: "alert" }, error),
    h("pre", { class: form }, shown.length > 200000 ? `${shown.slice(0, 200000)}\n…` : shown));
}

/** A payload in one of its forms; what cannot be read so is shown as bytes, with the reason. */
function written(form, state, data, text, parsed) {
  const { source = "", name = "" } = state.schema?.[form] || {};
  try {
    const shown = {
      json: () => JSON.stringify(parsed, null, 2), text: () => text, hex: () => hex(data), base64: () => base64(data),
      avro: () => JSON.stringify(readAvro(data, source), null, 2), protobuf: () => JSON.stringify(readProtobuf(data, source, name), null, 2),
    }[form]();
    return { shown, error: null };
  } catch (error) {
    return { shown: hex(data), error: `Not read as ${form === "avro" ? "Avro" : "Protobuf"}: ${error.message}.` };
  }
}

/** Paste a schema; it stays in this page, for this stream. */
function schemaForm(app, state, form) {
  const before = state.schema?.[form] || {};
  const example = form === "avro" ? '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}' : "message Order {\n  int64 id = 1;\n}";
  openForm(app, {
    title: form === "avro" ? "Avro schema" : "Protobuf schema", wide: true, values: { source: before.source || "", name: before.name || "" },
    body: (values) => [
      field(app, values, "source", form === "avro" ? "Schema (JSON)" : "Schema (.proto)", { rows: 14, placeholder: example, note: form === "avro" ? "Avro files bring theirs." : "Without one, fields are shown by their numbers." }),
      form === "protobuf" && field(app, values, "name", "Message", { placeholder: "the first one" }),
    ],
    submit: async (values) => {
      state.schema = { ...state.schema, [form]: { ...values } };
    },
  });
}

function asJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function headerTable(headers) {
  if (!headers.length) return null;
  return h("table", { class: "headers" }, h("tbody", {}, headers.map(([name, value], at) => h("tr", { key: at }, h("th", { scope: "row" }, name), h("td", {}, value)))));
}

/** `Name: value` lines as pairs. */
export function readHeaderLines(text) {
  const pairs = [];
  for (const line of (text || "").split("\n")) {
    if (!line.trim()) continue;
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`“${line}” is not a header: Name: value`);
    pairs.push([line.slice(0, colon).trim(), line.slice(colon + 1).trim()]);
  }
  return pairs;
}

// --- charts -----------------------------------------------------------------------------------------------------------

/** A line over time. `points` are [milliseconds, value]; `series` adds more lines of the same scale. */
export function chart(points, { height = 90, format = count, label = "", more = [] } = {}) {
  const width = 600;
  const all = [points, ...more];
  const times = points.map(([time]) => time);
  const from = times[0] ?? 0;
  const until = Math.max(times.at(-1) ?? 1, from + 1000);
  const top = Math.max(1e-9, ...all.flatMap((line) => line.map(([, value]) => value)));
  const at = ([time, value]) => `${(((time - from) / (until - from)) * width).toFixed(1)},${(height - 4 - (value / top) * (height - 12)).toFixed(1)}`;
  const lines = all.map((line) => line.map(at));
  const last = points.at(-1);
  return h("figure", { class: "chart" },
    h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": last ? `${label}: ${format(last[1])}, at most ${format(top)}` : label },
      h("line", { class: "base", x1: 0, x2: width, y1: height - 4, y2: height - 4 }),
      lines[0].length > 1 && h("path", { class: "area", d: `M${lines[0][0].split(",")[0]},${height - 4}L${lines[0].join("L")}L${lines[0].at(-1).split(",")[0]},${height - 4}Z` }),
      lines.map((line, index) => line.length > 1 && h("path", { class: `line line${index}`, key: `line${index}`, d: `M${line.join("L")}` }))),
    h("figcaption", {}, h("span", {}, label), h("span", {}, top > 1e-9 ? `peak ${format(top)}` : "")));
}

/** Values of the last minutes, for a chart. */
export class History {
  constructor(most = 300) {
    this.points = [];
    this._most = most;
  }

  add(value, time = Date.now()) {
    this.points.push([time, value]);
    if (this.points.length > this._most) this.points.shift();
  }

  last() {
    return this.points.at(-1)?.[1];
  }
}

/** A counter that grows, as a rate. */
export class Rate {
  constructor(most = 300) {
    this.history = new History(most);
    this._before = null;
  }

  add(total, time = Date.now()) {
    const before = this._before;
    this._before = [time, total];
    if (before && time > before[0] && total >= before[1]) this.history.add(((total - before[1]) * 1000) / (time - before[0]), time);
  }

  get now() {
    return this.history.last();
  }
}

export function timeCell(time) {
  return h("time", { datetime: String(time), title: moment(time) }, moment(time).slice(0, 19));
}
