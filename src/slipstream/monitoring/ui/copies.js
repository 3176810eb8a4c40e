// Streams that have copies on several servers: who leads, who follows, how far behind.

import { h } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { badge, button, openForm, plainTable } from "./widgets.js";

/** Of a `cluster` block: what is wrong with its copies, in a word, or nothing. */
export function trouble(cluster) {
  if (!cluster.leader) return "no leader";
  const gone = (cluster.replicas || []).filter(({ offline }) => offline);
  if (gone.length) return `${gone.map(({ name }) => name).join(", ")} offline`;
  const behind = (cluster.replicas || []).filter(({ current }) => !current);
  return behind.length ? `${behind.map(({ name }) => name).join(", ")} behind` : "";
}

export function lagOf(cluster) {
  return Math.max(0, ...(cluster.replicas || []).map(({ lag }) => lag || 0));
}

/** One row a server that keeps a copy. */
export function replicaTable(cluster) {
  const rows = (cluster.replicas || []).map(({ name, current, offline, active, lag }) => Object.assign([
    h("strong", {}, name), offline ? badge("offline", "bad") : current ? badge("current", "ok") : badge("behind", "warn"),
    count(lag || 0), offline || !active ? "–" : `${duration(active, 1)} ago`], { key: name }));
  rows.unshift(Object.assign(cluster.leader
    ? [h("strong", {}, cluster.leader), badge("leader", "ok"), "", ""]
    : [h("em", {}, "nobody"), badge("no leader", "bad"), "", ""], { key: "leader" }));
  return plainTable([["Server"], ["State"], ["Entries behind", "number"], ["Heard of", "number"]], rows);
}

/** A stream's copies as a card of its page. */
export function copiesCard(app, { config, cluster }) {
  if (!(cluster?.replicas?.length > 0)) return null;
  return h("section", { class: "card copies" },
    h("h2", {}, plural(cluster.replicas.length + 1, "copy", "copies")), replicaTable(cluster),
    cluster.leader && h("div", { class: "actions" }, button("Step down", () => stepDown(app, config.name, cluster.leader))));
}

function stepDown(app, name, leader) {
  openForm(app, {
    title: `Another leader for ${name}`, action: "Step down", values: {},
    body: () => h("p", {}, `${leader} hands the stream and its consumers over to one of the others. Nothing is lost; clients notice a short pause.`),
    submit: async () => {
      await app.js.api(`STREAM.LEADER.STEPDOWN.${name}`);
      app.toast(`${leader} has stepped down`);
      app.tick(true);
    },
  });
}

/** How many copies a new stream is to have; nothing to choose where there is no cluster. */
export function copiesField(app, field, given) {
  return app.hasCopies && field(app, given, "num_replicas", "Copies", { options: [["1", "one"], ["3", "three, on three servers"], ["5", "five, on five servers"]] });
}
