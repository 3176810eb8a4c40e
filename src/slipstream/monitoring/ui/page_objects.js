// Object stores: files in pieces, put and fetched by the page itself.

import { copiesField } from "./copies.js";
import { h } from "./dom.js";
import { base64, bytes, count, moment, plural } from "./format.js";
import { random } from "./nats.js";
import { digestText, Sha256 } from "./sha256.js";
import { badge, button, confirmTyped, facts, field, head, headerTable, isMissing, longTable, missing, openForm, problem, search, timeCell } from "./widgets.js";

const PREFIX = "OBJ_";
const CHUNK_BYTES = 128 * 1024;
const IN_FLIGHT = 8; // pieces that are on their way at once
const FETCHED_MAX = 512 << 20; // the browser holds a file before it saves it

const stores = { filter: "", sort: "Store" };
const nameOf = (info) => info.config.name.slice(PREFIX.length);

export function page(app, [bucket]) {
  return bucket ? bucketPage(app, bucket) : listPage(app);
}

function listPage(app) {
  app.every(2000, () => app.catalogue.refresh());
  return { title: "Objects", className: "fill", view: () => listView(app) };
}

function listView(app) {
  const { catalogue } = app;
  const items = catalogue.streams.filter((info) => info.config.name.startsWith(PREFIX) && nameOf(info).toLowerCase().includes(stores.filter.toLowerCase()));
  const columns = [
    { name: "Store", class: "name", sort: nameOf, cell: (info) => [h("strong", {}, nameOf(info)), info.state.lost && badge("damaged", "bad"), info.config.sealed && badge("sealed")] },
    { name: "Size", class: "number", falling: true, sort: ({ state }) => state.bytes, cell: ({ state }) => bytes(state.bytes) },
    { name: "Pieces", class: "number", falling: true, sort: ({ state }) => state.messages, cell: ({ state }) => count(state.messages) },
    { name: "Description", class: "wide", cell: ({ config }) => config.description || "" },
  ];
  return [
    head("Object stores", search(app, stores, "Filter stores"), button("New store", () => storeForm(app), { class: "primary" })),
    problem(catalogue.error),
    longTable(app, stores, { columns, items, key: (info) => info.config.name, label: "Stores", className: "stores", link: (info) => `#/objects/${encodeURIComponent(nameOf(info))}`, empty: catalogue.loaded ? "There are no object stores." : "Reading …" }),
  ];
}

function storeForm(app) {
  openForm(app, {
    title: "New object store", values: { name: "", description: "", storage: "file", num_replicas: "1" }, action: "Create",
    body: (given) => h("div", { class: "form one" }, field(app, given, "name", "Name", { autofocus: true, required: true }), field(app, given, "storage", "Kept", { options: [["file", "on disk"], ["memory", "in memory"]] }), copiesField(app, field, given), field(app, given, "description", "Description")),
    submit: async (given) => {
      const name = given.name.trim();
      if (!/^[A-Za-z0-9_-]+$/.test(name)) throw new Error("A store's name has letters, digits, - and _.");
      await app.js.api(`STREAM.CREATE.${PREFIX}${name}`, { name: PREFIX + name, subjects: [`$O.${name}.C.>`, `$O.${name}.M.>`], storage: given.storage, description: given.description || undefined, discard: "new", allow_rollup_hdrs: true, allow_direct: true, num_replicas: Number(given.num_replicas) });
      app.toast(`Store ${name} is made`);
      await app.catalogue.refresh(true);
      app.go(`#/objects/${encodeURIComponent(name)}`);
    },
  });
}

// --- one store --------------------------------------------------------------------------------------------------------

function bucketPage(app, bucket) {
  const state = { info: null, objects: [], error: null, filter: "", list: { sort: "Name" }, chosen: "", busy: null, last: -1 };
  const model = { app, bucket, state, stream: PREFIX + bucket };
  app.every(2000, () => read(model));
  return { title: bucket, className: "fill", view: () => bucketView(model) };
}

async function read(model, again = false) {
  const { app, state, stream, bucket } = model;
  try {
    state.info = await app.js.stream(stream);
    const { last_seq: last } = state.info.state;
    if (again || last !== state.last) {
      const found = await app.js.lasts(state.info, `$O.${bucket}.M.>`);
      state.objects = found.map(objectOf).filter((object) => object && !object.deleted);
      state.last = last;
    }
    state.error = null;
  } catch (error) {
    state.error = error;
  }
  app.redraw();
}

function objectOf(message) {
  try {
    const object = JSON.parse(new TextDecoder().decode(message.data));
    return typeof object.name === "string" ? { ...object, mtime: message.time, seq: message.seq } : null;
  } catch {
    return null; // not a word of an object store
  }
}

function metaSubject(bucket, name) {
  const text = base64(new TextEncoder().encode(name)).replace(/\+/g, "-").replace(/\//g, "_");
  return `$O.${bucket}.M.${text}`;
}

function bucketView(model) {
  const { app, bucket, state } = model;
  const words = state.filter.toLowerCase();
  const items = words ? state.objects.filter(({ name }) => name.toLowerCase().includes(words)) : state.objects;
  const columns = [
    { name: "Name", class: "name", sort: ({ name }) => name, cell: ({ name, options }) => [h("strong", {}, name), options?.link && badge("link")] },
    { name: "Size", class: "number", falling: true, sort: ({ size }) => size || 0, cell: ({ size }) => bytes(size || 0) },
    { name: "Pieces", class: "number wide", cell: ({ chunks }) => count(chunks || 0) },
    { name: "Put", class: "number mid", falling: true, sort: ({ mtime }) => mtime, cell: ({ mtime }) => timeCell(mtime) },
  ];
  const chosen = state.objects.find(({ name }) => name === state.chosen);
  const pick = h("label", { class: "as-button primary" }, "Upload", h("input", { type: "file", class: "hidden-input", multiple: true, "aria-label": "Upload", onchange: (event) => upload(model, event) }));
  return [
    head([h("a", { class: "up", href: "#/objects" }, "Objects"), " ", bucket],
      state.info && !isMissing(state.error) && [h("span", { class: "note" }, `${plural(state.objects.length, "object")} · ${bytes(state.info.state.bytes)}`), search(app, state, "Filter objects"), pick,
        h("a", { class: "as-button", href: `#/stream/${encodeURIComponent(PREFIX + bucket)}` }, "As a stream"), button("Delete store", () => removeStore(model), { class: "danger" })]),
    isMissing(state.error) ? missing(`There is no object store called ${bucket}.`, "#/objects", "All object stores") : problem(state.error),
    state.busy && h("p", { class: "notice ok", role: "status" }, `${state.busy.what} ${state.busy.name}: ${bytes(state.busy.done)} of ${bytes(state.busy.size)}`),
    !isMissing(state.error) && h("div", { class: `split ${chosen ? "both" : ""}` },
      h("div", { class: "left" }, longTable(app, Object.assign(state.list, { chosen: state.chosen }), {
        columns, items, key: ({ name }) => name, label: "Objects", className: "objects-table", empty: state.info ? "There are no objects." : "Reading …",
        open: ({ name }) => {
          state.chosen = name;
          app.redraw();
        },
      })),
      chosen && detail(model, chosen)),
  ];
}

function detail(model, object) {
  const { app, state } = model;
  return h("aside", { class: "detail", key: object.name, "aria-label": `Object ${object.name}` },
    h("div", { class: "bar" }, h("h2", {}, object.name), button("Close", () => {
      state.chosen = "";
      app.redraw();
    }, { class: "quiet" })),
    object.description && h("p", {}, object.description),
    facts([["Size", bytes(object.size || 0)], ["Pieces", count(object.chunks || 0)], ["Put", moment(object.mtime)], object.digest && ["Digest", h("code", {}, object.digest)], object.options?.link && ["Link to", `${object.options.link.bucket} ${object.options.link.name || ""}`]]),
    headerTable(Object.entries(object.headers || {}).flatMap(([name, values]) => [].concat(values).map((value) => [name, value]))),
    Object.keys(object.metadata || {}).length > 0 && facts(Object.entries(object.metadata)),
    h("div", { class: "bar" }, button("Download", () => download(model, object), { disabled: Boolean(object.options?.link) || app.hidesPayloads }), button("Delete", () => removeObject(model, object), { class: "danger" })));
}

async function upload(model, event) {
  const { app, bucket, state } = model;
  const files = [...event.target.files];
  event.target.value = "";
  for (const file of files) {
    state.busy = { what: "Uploading", name: file.name, done: 0, size: file.size };
    await app.attempt(() => put(model, file), `${file.name} is stored`);
  }
  state.busy = null;
  await read(model, true);
}

async function put({ app, bucket, state, stream }, file) {
  const before = (await app.js.get(stream, { last_by_subj: metaSubject(bucket, file.name) }));
  const nuid = random();
  const pieces = `$O.${bucket}.C.${nuid}`;
  const hash = new Sha256();
  let chunks = 0;
  const sent = [];
  try {
    for (let at = 0; at < file.size; at += CHUNK_BYTES) {
      const piece = new Uint8Array(await file.slice(at, at + CHUNK_BYTES).arrayBuffer());
      hash.add(piece);
      chunks++;
      sent.push(app.js.publish(pieces, piece));
      if (sent.length >= IN_FLIGHT) await sent.shift();
      state.busy.done = Math.min(file.size, at + CHUNK_BYTES);
      app.redraw();
    }
    await Promise.all(sent);
  } catch (error) {
    await Promise.allSettled(sent);
    await app.js.api(`STREAM.PURGE.${stream}`, { filter: pieces }).catch(() => {});
    throw error;
  }
  const object = { name: file.name, options: { max_chunk_size: CHUNK_BYTES }, bucket, nuid, size: file.size, mtime: new Date().toISOString(), chunks, digest: digestText(hash.digest()) };
  await app.js.publish(metaSubject(bucket, file.name), JSON.stringify(object), [["Nats-Rollup", "sub"]]);
  const old = before && objectOf(before);
  if (old?.nuid && !old.deleted) await app.js.api(`STREAM.PURGE.${stream}`, { filter: `$O.${bucket}.C.${old.nuid}` });
}

async function download(model, object) {
  const { app, bucket, state } = model;
  if (object.size > FETCHED_MAX) return app.toast(`The page fetches up to ${bytes(FETCHED_MAX)}; use slipstream object get.`, "bad");
  state.busy = { what: "Downloading", name: object.name, done: 0, size: object.size };
  await app.attempt(async () => {
    const pieces = [];
    const hash = new Sha256();
    let chunks = 0;
    for (let seq = 1; chunks < object.chunks; ) {
      const page = await app.js.read(state.info, { seq, filter: `$O.${bucket}.C.${object.nuid}`, batch: 16 });
      if (!page.length) break;
      for (const piece of page) {
        pieces.push(piece.data);
        hash.add(piece.data);
        chunks++;
        state.busy.done += piece.data.length;
      }
      seq = page.at(-1).seq + 1;
      app.redraw();
    }
    if (chunks !== object.chunks || state.busy.done !== object.size) throw new Error(`${object.name} is not whole: ${plural(chunks, "piece")} of ${count(object.chunks)}.`);
    if (object.digest && trimmed(object.digest) !== trimmed(digestText(hash.digest()))) throw new Error(`${object.name} is not what was put: its digest differs.`);
    save(object.name, new Blob(pieces, { type: "application/octet-stream" }));
  });
  state.busy = null;
  app.redraw();
}

const trimmed = (digest) => digest.replace(/=+$/, "");

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function removeObject(model, object) {
  const { app, bucket, stream, state } = model;
  confirmTyped(app, {
    title: `Delete ${object.name}`, name: object.name, action: "Delete", text: `The object and its ${plural(object.chunks || 0, "piece")} go. This cannot be undone.`,
    submit: async () => {
      const { seq: _seq, ...rest } = object;
      const gone = { ...rest, deleted: true, size: 0, chunks: 0, digest: "" };
      await app.js.publish(metaSubject(bucket, object.name), JSON.stringify(gone), [["Nats-Rollup", "sub"]]);
      if (object.nuid) await app.js.api(`STREAM.PURGE.${stream}`, { filter: `$O.${bucket}.C.${object.nuid}` });
      state.chosen = "";
      app.toast(`${object.name} is deleted`);
      await read(model, true);
    },
  });
}

function removeStore({ app, bucket, stream, state }) {
  confirmTyped(app, {
    title: `Delete store ${bucket}`, name: bucket, action: "Delete", text: `All ${plural(state.objects.length, "object")} go. This cannot be undone.`,
    submit: async () => {
      await app.js.api(`STREAM.DELETE.${stream}`);
      app.toast(`Store ${bucket} is deleted`);
      await app.catalogue.refresh(true);
      app.go("#/objects");
    },
  });
}
