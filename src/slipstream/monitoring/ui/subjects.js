// The subjects of a stream as a tree, with how many messages each branch has.

import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { button, empty, longTable, problem, search } from "./widgets.js";

const SUBJECTS_MAX = 100000;

export function subjectsTab(app, stream) {
  const state = { filter: "", tree: null, total: 0, more: false, error: null, open: new Set(), list: {}, flat: [] };
  const read = async () => {
    try {
      const { subjects, more } = await app.js.subjects(stream.name, ">", SUBJECTS_MAX);
      state.tree = grow(subjects);
      state.total = Object.keys(subjects).length;
      state.more = more;
      state.error = null;
      // What is small is shown whole.
      if (!state.open.size && state.total <= 50) openAll(state.tree, state.open);
    } catch (error) {
      state.error = error;
    }
    app.redraw();
  };
  read();
  return { view: () => view(app, stream, state, read) };
}

/** `{a.b: 2, a.c: 1}` as branches with sums. */
export function grow(subjects) {
  const root = { name: "", subject: "", count: 0, own: 0, children: new Map() };
  for (const [subject, number] of Object.entries(subjects)) {
    let at = root;
    root.count += number;
    for (const token of subject.split(".")) {
      let next = at.children.get(token);
      if (!next) at.children.set(token, (next = { name: token, subject: at.subject ? `${at.subject}.${token}` : token, count: 0, own: 0, children: new Map() }));
      next.count += number;
      at = next;
    }
    at.own += number;
  }
  return root;
}

function openAll(branch, open) {
  if (branch.children.size && branch.subject) open.add(branch.subject);
  for (const child of branch.children.values()) openAll(child, open);
}

function visible(state) {
  const words = state.filter.toLowerCase();
  const rows = [];
  const walk = (branch, depth) => {
    const children = [...branch.children.values()].sort((one, other) => other.count - one.count || (one.name < other.name ? -1 : 1));
    for (const child of children) {
      if (words && !holds(child, words)) continue;
      rows.push({ branch: child, depth });
      if (words || state.open.has(child.subject)) walk(child, depth + 1);
    }
  };
  walk(state.tree, 0);
  return rows;
}

function holds(branch, words) {
  if (branch.subject.toLowerCase().includes(words)) return true;
  for (const child of branch.children.values()) if (holds(child, words)) return true;
  return false;
}

function view(app, stream, state, read) {
  if (state.error) return problem(state.error);
  if (!state.tree) return empty("Reading …");
  const most = Math.max(1, state.tree.count);
  const columns = [
    { name: "Subject", class: "name", cell: ({ branch, depth }) => [h("span", { class: "twig", style: { "padding-left": `${depth * 18}px` } }, branch.children.size ? (state.open.has(branch.subject) || state.filter ? "▾" : "▸") : "·"), " ", h("code", {}, branch.name)] },
    { name: "Messages", class: "number", cell: ({ branch }) => count(branch.count) },
    { name: "Share", class: "share wide", cell: ({ branch }) => h("span", { class: "share-bar", style: { width: `${(branch.count / most) * 100}%` } }) },
    { name: "", class: "act", cell: ({ branch }) => h("a", { href: `#/stream/${encodeURIComponent(stream.name)}/messages?subject=${encodeURIComponent(branch.children.size ? `${branch.subject}.>` : branch.subject)}`, onclick: (event) => event.stopPropagation() }, "Messages") },
  ];
  return [
    h("div", { class: "bar" }, search(app, state, "Filter subjects"), h("span", { class: "note" }, plural(state.total, "subject"), state.more && ", and more"), button("Read again", read)),
    longTable(app, state.list, {
      columns, items: visible(state), key: ({ branch }) => branch.subject, label: "Subjects", className: "subjects", empty: "No subjects.",
      open: ({ branch }) => {
        if (state.open.has(branch.subject)) state.open.delete(branch.subject);
        else state.open.add(branch.subject);
        app.redraw();
      },
    }),
  ];
}
