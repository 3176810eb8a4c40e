// Streams that have copies on several servers: who leads, who follows, how far behind.

import { h } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { badge, button, openForm, plainTable } from "./widgets.js";

const ON_THE_WAY = 16; // entries that a copy may miss without anything being wrong

/** Whether a copy misses more than what comes within a second: that much is on its way to it. */
function isBehind({ current, lag = 0 }, perSecond = 0) {
  return !current && (lag === 0 || lag > Math.max(ON_THE_WAY, perSecond));
}

/** Of a `cluster` block: what is wrong with its copies, in a word, or nothing. `perSecond`: what the stream stores. */
export function trouble(cluster, perSecond) {
  if (!cluster.leader) return "no leader";
  const gone = (cluster.replicas || []).filter(({ offline }) => offline);
  if (gone.length) return `${gone.map(({ name }) => name).join(", ")} offline`;
  const behind = (cluster.replicas || []).filter((peer) => isBehind(peer, perSecond));
  return behind.length ? `${behind.map(({ name }) => name).join(", ")} behind` : "";
}

export function lagOf(cluster) {
  return Math.max(0, ...(cluster.replicas || []).map(({ lag }) => lag || 0));
}

/** One row a server that keeps a copy. */
export function replicaTable(cluster, perSecond) {
  const others = (cluster.replicas || []).filter(({ name }) => name !== cluster.leader);
  const rows = others.map((peer) => Object.assign([
    h("strong", {}, peer.name), peer.offline ? badge("offline", "bad") : isBehind(peer, perSecond) ? badge("behind", "warn") : badge("current", "ok"),
    peer.lag === null ? "–" : count(peer.lag || 0), peer.offline || !peer.active ? "–" : `${duration(peer.active, 1)} ago`], { key: peer.name }));
  rows.unshift(Object.assign(cluster.leader
    ? [h("strong", {}, cluster.leader), badge("leader", "ok"), "", ""]
    : [h("em", {}, "nobody"), badge("no leader", "bad"), "", ""], { key: "leader" }));
  return plainTable([["Server"], ["State"], ["Entries behind", "number"], ["Heard of", "number wide"]], rows);
}

/** A stream's copies as a card of its page. */
export function copiesCard(app, { config, cluster }, perSecond) {
  if (!(cluster?.replicas?.length > 0)) return null;
  return h("section", { class: "card copies" },
    h("h2", {}, plural(cluster.replicas.length + 1, "copy", "copies")), replicaTable(cluster, perSecond),
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
